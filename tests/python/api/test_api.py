"""longhaul.run, read, measure, plan and simulate: what the command says, as data frames."""

import contextlib
import io
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import types
import unittest

import longhaul as lh
from longhaul.report import sections

ROOT = pathlib.Path(__file__).resolve().parents[3]
LONGHAUL = os.environ["LONGHAUL_BINARY"]
SPEC = """
seed = 1
[model]
kind = "gpt"
blocks = 4
width = 32
heads = 2
context = 32
vocab = 256
[data]
source = "text:{text}"
[train]
steps = 6
batch_rows = 4
microbatches = 2
lr = 3e-3
[schedule]
kind = "1f1b"
stages = 2
[boundary]
forward = "int4-b64-h64"
backward = "int8-b64"
[outer]
groups = 1
inner_steps = 0
[net]
transport = "loopback"
[eval]
rows = 4
"""


class Api(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        text = cls.folder / "text.txt"
        text.write_text((ROOT / "LICENSE").read_text(encoding="utf-8"), encoding="utf-8")
        cls.spec = cls.folder / "small.toml"
        cls.spec.write_text(SPEC.format(text=text), encoding="utf-8")
        cls.told = io.StringIO()
        with contextlib.redirect_stderr(cls.told):
            cls.ran = lh.run(cls.spec, {"train.lr": 1e-3, "train.steps": 30, "boundary.backward": "none"},
                             results=cls.folder / "results/small")

    def refused(self, because, call, *words, **named):
        with self.assertRaises(lh.Refused) as caught, contextlib.redirect_stderr(io.StringIO()):
            call(*words, **named)
        self.assertIn(because, str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))

    def test_a_run_has_its_rows(self):
        run = self.ran
        self.assertEqual(run.document["status"], "ok")
        self.assertIn("ok, 30/30 steps, held-out loss", repr(run))
        self.assertEqual(len(run.steps), 2 * 30)
        self.assertGreater(run.steps.wall_s.min(), 0)
        self.assertTrue(run.steps.loss_nat.dropna().between(3, 7).all())
        codecs = dict(zip(run.crossings.direction, run.crossings.codec))
        self.assertEqual(codecs, {"forward": "int4-b64-h64", "backward": "none"})
        self.assertEqual(set(run.evaluations.codec), {"on", "off"})
        self.assertEqual(float(run.evaluations.query("codec == 'off'").loss_nat.iloc[-1]),
                         run.document["held_out"]["loss_nat"])
        self.assertEqual(len(run.links), len(run.document["links"]))
        self.assertIn("lr = 0.001", run.record.run(run.number).spec_toml)
        self.assertIn("step", self.told.getvalue(), "progress as on the command line")

    def test_outer_steps_have_cosines(self):
        with contextlib.redirect_stderr(io.StringIO()):
            run = lh.run(self.spec, {"outer.groups": 2, "outer.inner_steps": 2, "outer.codec": "none"}, results=self.folder / "outer/small")
        found = run.pseudo_gradients
        self.assertEqual(list(found.step), [2, 4, 6])
        self.assertEqual(list(found.cosine_to_last.isna()), [True, False, False])
        self.assertTrue(found.cosine_to_last.dropna().between(0.01, 0.999).all())
        self.assertTrue(found.member_cosine.between(0.5, 0.9999).all())
        self.assertTrue((found.norm > 0).all())
        self.assertEqual(len(self.ran.pseudo_gradients), 0, "one group that meets nobody has no outer step")
        told = types.SimpleNamespace(runs=run.record.runs(1))
        html = sections._pseudo_gradients(run.record, told)  # pylint: disable=protected-access
        self.assertIn(f"{found.cosine_to_last.mean():.3f}", html)
        self.assertIn(f"{found.member_cosine.mean():.3f}", html)
        self.assertEqual(sections._pseudo_gradients(  # pylint: disable=protected-access
            self.ran.record, types.SimpleNamespace(runs=self.ran.record.runs(1))), "")

    def test_a_failure_says_what_the_command_says(self):
        told = subprocess.run([LONGHAUL, "run", self.spec, "--set", "schedule.stages=3", "--results", self.folder / "no"],
                              capture_output=True, text=True).stderr
        self.refused(told.strip().removeprefix("longhaul: "), lh.run, self.spec, {"schedule.stages": 3},
                     results=self.folder / "no")
        self.refused("nothing.toml", lh.run, self.folder / "nothing.toml")
        self.refused("train.speed", lh.run, self.spec, {"train.speed": 3}, results=self.folder / "no")

    def test_records_are_read(self):
        one, every = lh.read(self.folder / "results/small"), lh.read(self.folder / "results")
        self.assertEqual(len(one.runs), 1)
        self.assertIn("1 runs of", repr(one))
        for table in ("steps", "crossings", "links", "evaluations"):
            frame, same = getattr(one, table), getattr(every, table)
            self.assertEqual(list(frame.columns[:4]), ["folder", "run_id", "arm", "seed"])
            self.assertTrue(frame.equals(same), table)
            self.assertTrue(frame[self.ran.crossings.columns if table == "crossings" else frame.columns[4:]].equals(
                getattr(self.ran, table)), table)
        self.assertEqual(len(one.estimates), 0)
        self.assertEqual(len(one.arms), 0)

    def test_figures_are_the_report_s(self):
        results = lh.read(self.folder / "results/small")
        self.refused("no figure 'deep'", results.figure, "deep")
        self.assertTrue(results.figure("training").svg.startswith("<svg"))

    def test_estimates_are_by_arm(self):
        folder = self.folder / "estimated"
        shutil.copytree(self.folder / "results/small", folder)
        with contextlib.closing(sqlite3.connect(folder / "longhaul.sqlite")) as record, record:
            record.executemany("INSERT INTO estimates VALUES (1, ?, ?, ?, ?, ?, ?, ?, 0.95, 't', 3, '')", [
                ("s2", "off", "q", "", 0.99, 0.98, 1.0), ("s2", "off", "delta", "nat", 0.01, 0.0, 0.02),
                ("s4", "off", "q", "", 0.97, 0.96, 0.98)])
        arms = lh.read(folder).arms
        self.assertEqual(list(arms.arm), ["s2", "s4"])
        self.assertEqual(list(arms.q_low), [0.98, 0.96])
        self.assertEqual(float(arms.delta_nat_high.iloc[0]), 0.02)

    def test_records_that_cannot_be_read_are_one_line(self):
        self.refused("no record there", lh.read, self.folder / "nowhere")
        other = self.folder / "other"
        shutil.copytree(self.folder / "results/small", other)
        with contextlib.closing(sqlite3.connect(other / "longhaul.sqlite")) as record, record:
            record.execute("PRAGMA user_version = 99")
        self.refused("schema version 99", lh.read, other)
        half = self.folder / "half"
        half.mkdir()
        (half / "longhaul.sqlite").write_bytes((self.folder / "results/small/longhaul.sqlite").read_bytes()[:5000])
        self.refused("half", lambda: lh.read(half).runs)

    def test_published_losses_are_estimated(self):
        campaign = lh.measure(ROOT / "experiments/specs/activation-small.toml", quiet=True, results=self.folder / "anew",
                              from_losses=ROOT / "docs/results/activation-small/losses.csv")
        with open(ROOT / "docs/results/activation-small/arms.csv", encoding="utf-8") as file:
            import pandas

            published = pandas.read_csv(file)
        ours = campaign.arms.query("evaluation == 'off'").set_index("arm")
        theirs = published[published.evaluation == "off"].set_index("arm") if "evaluation" in published else published
        self.assertGreater(len(ours), 3)
        for arm in ours.index.intersection(theirs.index):
            self.assertAlmostEqual(ours.eta[arm], theirs.eta[arm], 9)
            self.assertAlmostEqual(ours.eta_low[arm], theirs.eta_low[arm], 9)

    def test_plans_are_ranked(self):
        plan = lh.plan(ROOT / "examples/plan/plan.toml", {"plan.target_loss_nat": 3.0})
        self.assertTrue(plan.ranking.time_s.is_monotonic_increasing)
        self.assertTrue((plan.ranking.time_s_low <= plan.ranking.time_s).all())
        self.assertEqual(plan.document["target_loss_nat"], 3.0)
        self.refused("[plan]", lh.plan, self.spec)

    def test_conclusions_are_judged(self):
        scenario = ROOT / "planning/scenarios/latest.toml"
        simulated = lh.simulate(scenario, calibration=ROOT / "docs/results/diloco-small/calibration.json")
        self.assertIn("4 nodes reach 1e24", list(simulated.conclusions.conclusion))
        self.assertGreater(simulated.rows.c_quality.min(), 0)
        self.refused("calibration=", lambda: lh.simulate(scenario).conclusions)

    def test_the_module_is_the_command(self):
        words = ["codecs", "--help"]
        ours = subprocess.run([sys.executable, "-m", "longhaul", *words], capture_output=True, text=True)
        theirs = subprocess.run([LONGHAUL, *words], capture_output=True, text=True)
        self.assertEqual(ours.returncode, 0, ours.stderr)
        self.assertEqual(ours.stdout, theirs.stdout)

    def test_without_pandas_it_says_what_to_install(self):
        code = ("import sys; sys.modules['pandas'] = None\nimport longhaul as lh\n"
                f"try: lh.read({str(self.folder / 'results/small')!r}).steps\nexcept lh.Refused as refused: print(refused)")
        told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertIn("-m pip install pandas", told.stdout, told.stderr)
        self.assertEqual(told.stdout.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
