"""The untrained price P that `measure` records is what a run sees that loads the reference's weights and does not train."""

import os
import pathlib
import sqlite3
import subprocess
import tempfile
import unittest

LONGHAUL = os.environ["LONGHAUL_BINARY"]
TOKENS_PER_STEP = 4 * 32
RUN = """
[model]
kind = "gpt"
blocks = 4
width = 32
heads = 2
context = 32
vocab = 256
[data]
source = "headers"
[train]
batch_rows = 4
microbatches = 2
lr = 3e-3
[schedule]
kind = "1f1b"
stages = 1
[boundary]
forward = "none"
backward = "none"
[net]
transport = "loopback"
[eval]
rows = 16
"""
CAMPAIGN = f"""
[campaign]
name = "prices"
question = "Is P the price of the reference's weights?"
seeds = [1, 2]
d0_tokens = {40 * TOKENS_PER_STEP}
budgets = [0.5, 1.0]
""" + RUN + """
[[arm]]
name = "s4"
stages = 4
forward = "int4-b64-h64"
backward = "int8-b64"
"""


class UntrainedPrice(unittest.TestCase):
    def command(self, folder, spec, *words):
        path = folder / "spec.toml"
        path.write_text(spec, encoding="utf-8")
        verb, *options = words
        done = subprocess.run([LONGHAUL, verb, path, *options], capture_output=True, text=True, timeout=250, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def rows(self, results, question):
        with sqlite3.connect(results / "longhaul.sqlite") as db:
            return db.execute(question).fetchall()

    def test_is_what_a_run_of_these_weights_loses_at_its_boundaries(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            self.command(folder, CAMPAIGN, "measure", "--accept-unresolved", "--results", folder / "campaign")
            prices = dict(self.rows(folder / "campaign", "SELECT seed, value FROM runs JOIN run_facts ON run_id = runs.id"
                                                         " WHERE arm = 's4' AND key = 'untrained_price_nat'"))
            self.assertEqual(set(prices), {1, 2})
            trained = ("--set", "seed=2", "--set", "train.steps=40", "--set", f"model.save={folder / 'weights'}")
            self.command(folder, RUN, "run", *trained, "--results", folder / "reference")
            stages = ("--set", "schedule.stages=4", "--set", "boundary.forward=int4-b64-h64", "--set", "boundary.backward=int8-b64")
            still = ("--set", "seed=2", "--set", "train.steps=1", "--set", "train.lr=1e-30",
                     "--set", f"model.init={folder / 'weights' / 'model.safetensors'}")
            self.command(folder, RUN, "run", *stages, *still, "--results", folder / "crossed")
            loss = dict(self.rows(folder / "crossed", "SELECT codec, loss_nat FROM evaluations"))
            nat, error, rows = map(float, prices[2].split())
            self.assertGreater(nat, 0)
            self.assertGreater(error, 0)
            self.assertEqual(rows, 16)
            self.assertAlmostEqual(nat, loss["on"] - loss["off"], delta=1e-12)


if __name__ == "__main__":
    unittest.main()
