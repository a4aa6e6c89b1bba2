"""The record as Python reads it."""

import fcntl
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from making import Made  # noqa: E402

from longhaul.record import OtherVersion, Round, Simulated, Step, Unreadable, open_record  # noqa: E402
from longhaul.record.contents import mixed_contents, read_contents  # noqa: E402
from longhaul.record.specs import planned_runs, value  # noqa: E402

SHA = "0123456789abcdef" * 4


class RecordTest(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.made = Made(pathlib.Path(self.scratch.name) / "record")

    def test_a_loss_that_is_no_number_stays_one(self):
        run = self.made.run(self.made.experiment())
        for step, loss in ((1, 2.5), (2, "nan"), (3, "inf"), (4, None)):
            self.made.add("steps", run_id=run, step=step, loss_nat=loss, outer_synced=step == 2, parameter_hash="ff")
        with open_record(self.made.folder) as record:
            steps = record.read(Step, run)
        self.assertEqual(steps[0].loss_nat, 2.5)
        self.assertTrue(math.isnan(steps[1].loss_nat))
        self.assertEqual(steps[2].loss_nat, math.inf)
        self.assertIsNone(steps[3].loss_nat)
        self.assertEqual([step.outer_synced for step in steps], [False, True, False, False])

    def test_a_run_that_says_running_has_died_unless_a_process_holds_its_byte(self):
        run = self.made.run(self.made.experiment(), status="running", pid=7, host="there")
        lock = pathlib.Path(self.made.folder) / "longhaul.lock"
        lock.touch()
        with open_record(self.made.folder) as record:
            died = record.run(run)
        self.assertEqual((died.status, died.reason), ("died", "process 7 on there died without a word"))
        writer = os.open(lock, os.O_RDWR)
        self.addCleanup(os.close, writer)
        fcntl.fcntl(writer, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, run, 1, 0))
        with open_record(self.made.folder) as record:
            self.assertEqual(record.run(run).status, "running")
            self.assertEqual(record.runs(1)[0].reason, "")

    def test_the_first_records_lack_tables_and_have_none_of_their_rows(self):
        made = Made(pathlib.Path(self.scratch.name) / "old", without=("rounds", "simulated_times", "experiment_facts"))
        run = made.run(made.experiment())
        with open_record(made.folder) as record:
            self.assertEqual(record.read(Round, run), [])
            self.assertEqual(record.read(Simulated, run), [])
            self.assertEqual(record.experiments()[0].facts, {})

    def test_a_plan_that_was_changed_is_told(self):
        experiment = self.made.experiment(kind="campaign", plan_text="[plan]\nseeds = [1]\n")
        with open_record(self.made.folder) as record:
            record.experiments()
        # The list of named files is part of the plan's hash.
        self.made.add("experiment_facts", experiment_id=experiment, key="named_files", value=f"data.source {SHA} 1 1 x\n")
        with open_record(self.made.folder) as record, self.assertRaisesRegex(Unreadable, "was changed or is damaged"):
            record.experiments()

    def test_what_cannot_be_read_is_said_in_one_line(self):
        root = pathlib.Path(self.scratch.name)
        with self.assertRaisesRegex(Unreadable, "no record there: open .*: No such file or directory; .*record has one"):
            open_record(root)
        self.made.db.execute("PRAGMA user_version = 3")
        with self.assertRaisesRegex(OtherVersion, "schema version 3, this program reads 2"):
            open_record(self.made.folder)
        self.made.db.execute("PRAGMA user_version = 0")
        with self.assertRaisesRegex(Unreadable, "nothing was written into it yet"):
            open_record(self.made.folder)
        (root / "text").mkdir()
        (root / "text" / "longhaul.sqlite").write_text("no database" * 100)
        with self.assertRaisesRegex(Unreadable, "file is not a database"):
            open_record(root / "text")

    def test_reading_writes_nothing(self):
        self.made.run(self.made.experiment())
        self.made.db.close()
        before = {path.name: path.read_bytes() for path in pathlib.Path(self.made.folder).iterdir()}
        with open_record(self.made.folder) as record:
            record.runs(1)
        self.assertEqual({path.name: path.read_bytes() for path in pathlib.Path(self.made.folder).iterdir()}, before)

    def test_a_frame_has_the_columns_of_the_table(self):
        run = self.made.run(self.made.experiment(), facts={"cores": "4"})
        self.made.add("steps", run_id=run, step=1, loss_nat="nan", wall_s=0.5)
        with open_record(self.made.folder) as record:
            try:
                steps = record.frame("steps")
            except Exception as missing:
                self.assertIn("needs the Python package pandas", str(missing))
                return
            self.assertEqual(steps.wall_s.tolist(), [0.5])
            self.assertTrue(math.isnan(steps.loss_nat[0]))
            self.assertEqual(record.frame("run_facts").value.tolist(), ["4"])
            with self.assertRaisesRegex(Unreadable, "no table 'nothing'; it has "):
                record.frame("nothing")

    def test_the_standard_library_is_enough(self):
        self.made.run(self.made.experiment())
        program = ("import sys; sys.modules.update(dict.fromkeys(['numpy', 'scipy', 'pandas', 'matplotlib', 'torch']));"
                   "from longhaul.commands import main; sys.exit(main(['list', sys.argv[1]]))")
        done = subprocess.run([sys.executable, "-c", program, self.made.folder], capture_output=True, text=True, check=False,
                              env={**os.environ, "LONGHAUL_READS": "1"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("experiment 1 'x': complete", done.stdout)


class ContentsTest(unittest.TestCase):
    def test_lines_that_are_none_are_left_out(self):
        text = f"data.source {SHA} 12 2 text:/a b,/c\nnonsense\nnet.profile {SHA} x 1 y\n"
        found = read_contents(text)
        self.assertEqual([(c.key, c.value, c.bytes, c.files) for c in found], [("data.source", "text:/a b,/c", 12, 2)])

    def test_runs_of_other_files_are_told_with_both_hashes(self):
        with tempfile.TemporaryDirectory() as scratch:
            made = Made(scratch)
            experiment = made.experiment()
            for seed, first in enumerate("aab"):
                made.run(experiment, seed=seed, facts={"named_files": f"data.source {first * 64} 1 1 x\n"})
            made.run(experiment, seed=3, status="failed", facts={"named_files": f"data.source {'c' * 64} 1 1 x\n"})
            with open_record(scratch) as record:
                self.assertEqual(mixed_contents(record.runs(experiment)),
                                 "data.source (x): SHA-256 aaaaaaaaaaaaaaaa in 2 runs, SHA-256 bbbbbbbbbbbbbbbb in 1 run")


class SpecsTest(unittest.TestCase):
    def test_planned_runs_are_arms_times_seeds(self):
        plan = '[plan]\nseeds = [1, 2, 3]\n[[arm]]\nname = "a"\nspec = """\n[[arm]] x\n"""\n[[arm]]\nname = "b"\n'
        self.assertEqual(planned_runs(plan), 6)
        self.assertEqual(planned_runs("[plan"), 0)
        self.assertEqual(planned_runs("[plan]\nseeds = 3\n"), 0)

    def test_a_key_that_is_not_there_has_no_value(self):
        self.assertEqual(value({"a": {"b": 1}}, "a.b"), 1)
        self.assertIsNone(value({"a": {"b": 1}}, "a.b.c"))
        self.assertIsNone(value(None, "a"))


if __name__ == "__main__":
    unittest.main()
