"""Are two runs the same bits? What is compared, and what is said of it."""

import math
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from making import Made  # noqa: E402

from longhaul.record import open_record  # noqa: E402
from longhaul.refusal import Refused  # noqa: E402
from longhaul.report.identical import compare_runs, find_run  # noqa: E402


class IdenticalTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.made = Made(scratch.name)
        self.experiment = self.made.experiment()

    def add(self, loss=2.5, parameters="07", payload="09", held_out=2.25, steps=1, **run):
        number = self.made.run(self.experiment, **run)
        for step in range(1, steps + 1):
            self.made.add("steps", run_id=number, step=step, loss_nat=loss, parameter_hash=parameters)
        self.made.add("crossings", run_id=number, dst_rank=1, direction="forward", payload_hash=payload)
        for codec, nat in (("off", 2.0), ("on", held_out)):
            self.made.add("evaluations", run_id=number, step=1, codec=codec, loss_nat=nat)
        return number

    def compare(self, a, b):
        with open_record(self.made.folder) as record:
            return compare_runs(record, a, b)

    def test_equal_runs_are_and_what_was_compared_is_said(self):
        equal, words = self.compare(self.add(), self.add())
        self.assertTrue(equal)
        self.assertEqual(words, "runs 1 and 2 are bit-identical: 1 training losses, 1 parameter hashes, the encoded bytes of 1 "
                                "crossings, 2 held-out losses; not compared: times, links")

    def test_one_bit_is_a_difference(self):
        a = self.add()
        for other, words in (({"loss": math.nextafter(2.5, 3)}, "step 1, group 0, stage 0: loss 2.5 against 2.5000000000000004"),
                             ({"parameters": "08"}, "parameters 07 against 08"),
                             ({"payload": "0a"}, "crossing 0 > 1 (forward): 0 encoded bytes (09) against 0 (0a)"),
                             ({"held_out": math.nextafter(2.25, 3)}, "held-out loss, codec on, step 1: 2.25 against")):
            equal, said = self.compare(a, self.add(**other))
            self.assertFalse(equal)
            self.assertIn(words, said)

    def test_a_held_out_loss_that_one_lacks_is_a_difference(self):
        a, b = self.add(), self.add()
        self.made.add("evaluations", run_id=b, step=0, codec="on", loss_nat=5.0)
        self.assertFalse(self.compare(a, b)[0])
        self.assertFalse(self.compare(b, a)[0])

    def test_only_the_boundary_bytes_of_a_resumed_run_count(self):
        a, b = self.add(), self.add(facts={"resumed_from_step": "1"})
        self.assertIn("not compared: the contents of outer frames (one run was resumed", self.compare(a, b)[1])
        self.assertFalse(self.compare(a, self.add(payload="0a", facts={"resumed_from_step": "1"}))[0])

    def test_a_shorter_run_is_compared_as_far_as_it_goes_and_named_first(self):
        short, whole = self.add(), self.add(steps=2)
        self.assertIn("in the 1 step rows that run 1 has", self.compare(short, whole)[1])
        with self.assertRaisesRegex(Refused, "run 1 is the shorter one"):
            self.compare(whole, short)

    def test_runs_of_other_data_have_no_bits_to_compare(self):
        a = self.add(facts={"data_hash": "a" * 64})
        b = self.add(facts={"data_hash": "b" * 64})
        with self.assertRaisesRegex(Refused, "trained on other files.*SHA-256 a{16} there, b{16} here"):
            self.compare(a, b)

    def test_an_arm_is_its_newest_run_that_trained_to_its_end(self):
        self.add(arm="x"), self.add(arm="x", status="invalid"), self.add(arm="x", status="failed")
        with open_record(self.made.folder) as record:
            self.assertEqual([find_run(record, name) for name in ("x", "last", "1")], [2, 3, 1])
            with self.assertRaisesRegex(Refused, "no run 'y' .* arms there: x"):
                find_run(record, "y")


if __name__ == "__main__":
    unittest.main()
