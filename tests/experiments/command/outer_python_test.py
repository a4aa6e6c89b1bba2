"""Outer algorithms in Python, as a user runs them.

    outer_python_test.py LONGHAUL ROOT [-v] [TEST ...]

DiLoCo of examples/outer/rules.py has the bits and bytes of the built-in one: in one process, after a kill, with groups that
come and go, over links. Its source is part of what a run is. What is wrong with a class is said in one line.
"""

import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import unittest

LONGHAUL, ROOT = (os.path.abspath(word) for word in sys.argv[1:3])
RULES = pathlib.Path(ROOT, "examples", "outer", "rules.py")
SMALL = ["train.steps=18", "outer.groups=2", "outer.inner_steps=5", "outer.codec=int4-b64-h64+ef", "outer.momentum=0.8"]


class Case(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def run_spec(self, algorithm, *sets, results="results", words=(), spec=None):
        command = [LONGHAUL, "run", spec or os.path.join(ROOT, "tests/experiments/command/tiny.toml"), "--quiet", "--results",
                   str(self.folder / results), *words]
        for one in [*SMALL, f"outer.algorithm={algorithm}", *sets]:
            command += ["--set", one]
        return subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=self.folder)

    def trained(self, algorithm, *sets, **options):
        done = self.run_spec(algorithm, *sets, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.steps(options.get("results", "results"))

    def query(self, results, sql):
        with sqlite3.connect(self.folder / results / "longhaul.sqlite") as record:
            return record.execute(sql).fetchall()

    def steps(self, results, columns="outer_synced, outer_sent_bytes, parameter_hash"):
        return self.query(results, f"SELECT step, group_index, stage, loss_nat, {columns} FROM steps WHERE run_id = (SELECT max(id) "
                          "FROM runs) ORDER BY 1, 2, 3")

    def file(self, text, name="mine.py"):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path


class Diloco(Case):
    def test_has_the_bits_and_bytes_of_the_built_in_one(self):
        for sets in ((), ("schedule.stages=1", "outer.groups=3", "outer.lr_schedule=linear", "outer.codec=none"),
                     ("model.kind=llama", "model.tied_head=true", "outer.mean=senders")):
            with self.subTest(sets=sets):
                built_in = self.trained("diloco", *sets, results="built-in")
                self.assertEqual(self.trained(f"python:{RULES}:Diloco", *sets, results="python"), built_in)
                self.assertEqual(sum(row[4] for row in built_in), 4 * len({row[1:3] for row in built_in}))

    def test_differs_where_its_rule_differs(self):
        built_in = self.trained("diloco", results="built-in")
        self.assertNotEqual(self.trained(f"python:{RULES}:Average", results="average")[-1][-1], built_in[-1][-1])
        # The mean of what all have: DiLoCo without momentum at the rate 1.
        plain = self.trained("diloco", "outer.lr=1", "outer.momentum=0", results="plain")
        self.assertEqual([row[-1] for row in self.steps("average")], [row[-1] for row in plain])

    def test_goes_on_after_a_kill_bit_for_bit(self):
        built_in = self.trained("diloco", "checkpoint.every_steps=3", results="built-in")
        killer = self.file("import os, signal\n" + RULES.read_text(encoding="utf-8") + f"""
class Killed(Diloco):
    def send(self, step):
        if step == 15 and not os.path.exists({str(self.folder / 'was-here')!r}):
            open({str(self.folder / 'was-here')!r}, "w").close()
            os.kill(os.getppid(), signal.SIGKILL)
        return super().send(step)
""")
        killed = self.run_spec(f"python:{killer}:Killed", "checkpoint.every_steps=3")
        self.assertNotEqual(killed.returncode, 0)
        self.assertTrue((self.folder / "was-here").exists())
        self.trained(f"python:{killer}:Killed", "checkpoint.every_steps=3", words=["--resume"])
        self.assertEqual(self.steps("results")[-4:], built_in[-4:])
        # Checkpoints are written behind the training: the last one may not have been whole.
        self.assertIn(self.query("results", "SELECT value FROM run_facts WHERE key = 'resumed_from_step'"), ([("9",)], [("12",)]))

    def test_hands_its_state_to_a_group_that_joins(self):
        fault = '[[fault]]\nwhat = "kill"\nwhere = "group 1"\nat_step = 7\n'
        text = pathlib.Path(ROOT, "tests/experiments/command/tiny.toml").read_text(encoding="utf-8") + fault
        spec = str(self.file(text, "fault.toml"))
        sets = ("outer.on_group_loss=continue", "train.steps=30")
        built_in = self.trained("diloco", *sets, results="built-in", spec=spec)
        self.assertEqual(self.trained(f"python:{RULES}:Diloco", *sets, results="python", spec=spec), built_in)
        there = [len([row for row in built_in if row[0] == step]) for step in range(1, 31)]
        self.assertEqual((there[0], min(there), there[-1]), (4, 2, 4))

    def test_has_the_bits_of_one_process_over_links(self):
        if not os.path.exists("/dev/net/tun"):
            self.skipTest("no /dev/net/tun")
        built_in = self.trained("diloco", results="built-in")
        self.assertEqual(self.trained(f"python:{RULES}:Diloco", "net.transport=ucx", "net.emulator=tap", "net.profile=continental-us",
                                      "net.out_of_bounds=flag", results="links"), built_in)


class Identity(Case):
    def test_counts_its_file_from_the_spec_and_records_its_hash(self):
        self.file(RULES.read_text(encoding="utf-8"))
        text = pathlib.Path(ROOT, "tests/experiments/command/tiny.toml").read_text(encoding="utf-8")
        (self.folder / "specs").mkdir()
        spec = self.file(text.replace("[outer]", '[outer]\nalgorithm = "python:../mine.py:Diloco"'), "specs/own.toml")
        command = [LONGHAUL, "run", "specs/own.toml", "--quiet", "--results", "results"]
        for one in SMALL:
            command += ["--set", one]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=self.folder)
        self.assertEqual(done.returncode, 0, f"{spec}: {done.stderr}")
        contents = dict(self.query("results", "SELECT key, value FROM run_facts"))["named_files"]
        self.assertIn("outer.algorithm ", contents)
        self.assertIn("python:mine.py:Diloco", contents)

    def test_refuses_to_resume_with_another_source(self):
        path = self.file(RULES.read_text(encoding="utf-8") + "\n\nclass Killed(Diloco):\n    def apply(self, step, mean, lr):\n"
                         "        if step == 15:\n            raise OSError('gone')\n        return super().apply(step, mean, lr)\n")
        sets = ("checkpoint.every_steps=3",)
        self.assertEqual(self.run_spec(f"python:{path}:Killed", *sets).returncode, 1)
        path.write_text(path.read_text(encoding="utf-8").replace("step == 15", "step == 99"), encoding="utf-8")
        done = self.run_spec(f"python:{path}:Killed", *sets, words=["--resume"])
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("outer.algorithm", done.stderr)
        self.assertIn("SHA-256", done.stderr)


class Errors(Case):
    WHOLE = "class Mine:\n    def __init__(self, rank):\n        self.rank = rank\n" \
            "    def send(self, step):\n        return self.rank.start\n" \
            "    def apply(self, step, mean, lr):\n        return self.rank.start\n"

    def said(self, text, class_name="Mine", name="mine.py"):
        done = self.run_spec(f"python:{self.file(text, name)}:{class_name}", results=f"results-{os.urandom(4).hex()}")
        self.assertEqual(done.returncode, 1, done.stderr)
        lines = [line for line in done.stderr.splitlines() if "outer.algorithm" in line]
        self.assertTrue(lines, done.stderr)
        return lines[-1]

    def test_are_said_in_one_line_with_their_place(self):
        mine = str(self.folder / "mine.py")
        send, apply = "return self.rank.start\n    def", "lr):\n        return self.rank.start"
        for change, wanted in (
                (("class Mine", "class Other"), f"{mine} has no class Mine"),
                (("def apply", "def applied"), f"class Mine of {mine} has no method apply"),
                (("class Mine:", "class Mine\n"), f"{mine}:1: SyntaxError"),
                (("class Mine:", "import nothing_of_this_name\nclass Mine:"), f"{mine}:1, <module>: ModuleNotFoundError"),
                (("class Mine:", "class Mine:\n    state = ('a', 'a')"), "state is ('a', 'a'); want a tuple of names"),
                (("self.rank = rank", "rank.lost"), f"{mine}:3, __init__: AttributeError"),
                ((send, "return 1 / 0\n    def"), f"{mine}:5, send: ZeroDivisionError: division by zero"),
                ((send, "return 3\n    def"), "Mine.send returned int; want a tensor of shape ["),
                ((send, "return self.rank.start[1:]\n    def"), "Mine.send returned a tensor of shape ["),
                ((send, "return self.rank.start.double()\n    def"), "torch.float64; want a tensor"),
                ((send, "return self.rank.start / 0\n    def"), "Mine.send returned NaN or Inf"),
                ((apply, "lr):\n        raise KeyError('x')"), f"{mine}:7, apply: KeyError: 'x'"),
                ((apply, "lr):\n        return mean / 0"), "Mine.apply returned NaN or Inf"),
                ((apply, "lr):\n        import os; os._exit(3)"), "has ended")):
            with self.subTest(wanted=wanted):
                self.assertIn(change[0], self.WHOLE)
                said = self.said(self.WHOLE.replace(*change))
                self.assertIn(wanted, said)
                self.assertIn("group ", said)
                self.assertEqual(self.left(), [])

    def test_of_files_and_names_are_said_before_anything_starts(self):
        for algorithm, wanted in (("python:no.py:Mine", "no.py: No such file"), ("python:no.py", "python:FILE:CLASS"),
                                  ("pythn:no.py:Mine", "known: diloco")):
            done = self.run_spec(algorithm)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(wanted, done.stderr)
            self.assertIn("outer.algorithm", done.stderr)

    def left(self):
        """Processes that have our folder among their words, or the module as theirs, and whose parent is gone."""
        found = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "cmdline").read_bytes()
                parent = int((process / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
            if b"longhaul.hooks" in words and parent in (0, 1, os.getpid()):
                found.append(words)
        return found


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
