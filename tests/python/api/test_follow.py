"""`longhaul follow`: every point of a record once, in order, while it grows."""

import contextlib
import fcntl
import os
import pathlib
import sqlite3
import struct
import subprocess
import tempfile
import threading
import time
import unittest

import longhaul as lh
from longhaul import follow

from test_api import ROOT, SPEC

LONGHAUL, PYTHON = os.environ["LONGHAUL_BINARY"], os.environ["LONGHAUL_EXPORT_PYTHON"]


class Kept:
    """A tool that keeps what it is given."""

    made = []

    def __init__(self, out, run):
        self.run, self.points, self.closed = run, [], 0
        Kept.made.append(self)

    def log(self, step, at, values):
        assert not self.closed
        self.points.append((step, values))

    def flush(self):
        pass

    def close(self):
        self.closed += 1


class Follow(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        (self.folder / "text.txt").write_text((ROOT / "LICENSE").read_text(encoding="utf-8"), encoding="utf-8")
        self.spec = self.folder / "small.toml"
        self.spec.write_text(SPEC.format(text=self.folder / "text.txt"), encoding="utf-8")
        self.results = self.folder / "results"
        follow.TOOLS["kept"] = ("json", Kept)
        self.addCleanup(follow.TOOLS.pop, "kept")
        Kept.made = []

    def same(self, log, run):
        """All of a run's points: means over workers, and both evaluations."""
        means = run.steps.groupby("step").loss_nat.mean()
        steps = [(step, values["train/loss_nat"]) for step, values in log.points if "train/loss_nat" in values]
        self.assertEqual([step for step, _ in steps], list(means.index))
        for step, loss in steps:
            self.assertAlmostEqual(loss, means[step], 12)
        held = {key: value for _, values in log.points for key, value in values.items() if key.startswith("eval/")}
        for row in run.evaluations.itertuples():
            self.assertEqual(held[f"eval/loss_nat/codec_{row.codec}"], row.loss_nat)
        self.assertEqual(log.closed, 1)

    def test_a_run_is_followed_to_its_end(self):
        ran = []
        runner = threading.Thread(target=lambda: ran.append(
            lh.run(self.spec, {"train.steps": 400}, results=self.results, quiet=True)))
        runner.start()
        while not (self.results / "longhaul.sqlite").exists():
            time.sleep(0.05)
        told = follow.follow(self.results, "kept", self.folder / "out", every_s=0.3)
        runner.join()
        self.assertIn("1 runs", told)
        self.same(Kept.made[0], ran[0])

    def test_steps_wait_for_every_worker(self):
        run = lh.run(self.spec, results=self.results, quiet=True)
        with contextlib.closing(sqlite3.connect(self.results / "longhaul.sqlite", isolation_level=None)) as record, \
                open(self.results / "longhaul.lock", "r+b") as locks:
            rows = record.execute("SELECT * FROM steps ORDER BY step, stage").fetchall()
            held = record.execute("SELECT * FROM evaluations").fetchall()
            record.execute("DELETE FROM steps")
            record.execute("DELETE FROM evaluations")
            record.execute("UPDATE runs SET status = 'running'")
            fcntl.fcntl(locks, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, run.number, 1, 0))
            insert = f"INSERT INTO steps VALUES ({', '.join('?' * len(rows[0]))})"
            with contextlib.closing(follow.Follower(self.results, "kept", str(self.folder))) as follower:
                self.assertEqual(follower.poll(), 1)
                log = Kept.made[0]
                self.assertEqual(log.points, [])
                for count, until in ((5, 2), (6, 3), (7, 3), (8, 4)):  # two workers: stages 0 and 1
                    record.execute("DELETE FROM steps")
                    record.executemany(insert, rows[:count])
                    follower.poll()
                    self.assertEqual([step for step, _ in log.points], list(range(1, until + 1)), count)
                record.executemany(insert, rows[8:11])  # the last worker says no more
                record.executemany(f"INSERT INTO evaluations VALUES ({', '.join('?' * len(held[0]))})", held)
                record.execute("UPDATE runs SET status = 'failed'")
                self.assertEqual(follower.poll(), 0)
                self.assertEqual([step for step, values in log.points if "time/step_s" in values], [1, 2, 3, 4, 5, 6])
                self.assertEqual(log.closed, 1)
                record.execute("UPDATE runs SET status = 'running'")  # of a closed log nothing is asked
                self.assertEqual(follower.poll(), 1)

    def command(self, *words):
        return subprocess.run([LONGHAUL, "follow", "--python", PYTHON, *map(str, words)], capture_output=True, text=True)

    def test_a_record_becomes_event_files(self):
        if subprocess.run([PYTHON, "-c", "import tensorboard"], capture_output=True).returncode != 0:
            self.skipTest("no tensorboard")
        run = lh.run(self.spec, results=self.results, quiet=True)
        done = self.command(self.results, "--to", "tensorboard", "--once")
        self.assertEqual(done.returncode, 0, done.stderr)
        read = ("import glob, json, os, sys\n"
                "from tensorboard.backend.event_processing.event_accumulator import EventAccumulator as Events\n"
                "folder, = {os.path.dirname(f) for f in glob.glob(sys.argv[1] + '/**/events.*', recursive=True)}\n"
                "events = Events(folder); events.Reload()\n"
                "print(json.dumps([(e.step, e.value) for e in events.Scalars('train/loss_nat')]))")
        told = subprocess.run([PYTHON, "-c", read, self.results / "tensorboard"], capture_output=True, text=True)
        self.assertEqual(told.returncode, 0, told.stderr)
        import json

        means = run.steps.groupby("step").loss_nat.mean()
        for step, loss in json.loads(told.stdout):
            self.assertAlmostEqual(loss, means[step], 5)
        again = self.command(self.results, "--to", "tensorboard", "--once")
        self.assertEqual((again.returncode, again.stderr.count("\n")), (1, 1))
        self.assertIn("name a new one with --out", again.stderr)

    def test_what_is_wrong_is_one_line(self):
        for because, words in (("no record there", (self.folder, "--to", "tensorboard", "--once")),
                               ("want seconds", (self.folder, "--to", "tensorboard", "--every", "0"))):
            done = self.command(*words)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
            self.assertIn(because, done.stderr)
        code = "import sys; sys.modules['trackio'] = None\nfrom longhaul.commands import main\nsys.exit(main(sys.argv[1:]))"
        done = subprocess.run([PYTHON, "-c", code, "follow", self.folder, "--to", "trackio"], capture_output=True, text=True,
                              env={**os.environ, "LONGHAUL_READS": "1"})
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
        self.assertRegex(done.stderr, "package trackio.* -m pip install")


if __name__ == "__main__":
    unittest.main()
