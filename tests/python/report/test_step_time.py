"""When a prediction of step times is judged; what a grid's table says."""

import math
import types
import unittest

from longhaul.report.data import pareto_front
from longhaul.report.step_time import StepTime, bits_per_element, judge, judged, percent_over_prediction
from longhaul.report.timing import TimingCell, TimingFindings, gain_verdict, timing_table
from longhaul.tables import Interval, Measured, csv_rows, text


def measured(low, high):
    return Measured((low + high) / 2, Interval(low, high, 0.95, "t"))


class JudgeTest(unittest.TestCase):
    def test_the_whole_interval_must_lie_on_one_side(self):
        for low, high, kind in ((-0.0999, 0.0999, "within"), (-0.1, 0.05, "not judged"), (0.05, 0.1, "not judged"),
                                (0.1001, 0.2, "beyond"), (0.1, 0.2, "not judged"), (-0.2, -0.1001, "beyond"),
                                (-0.2, 0.2, "not judged")):
            self.assertEqual(judge(measured(low, high), "").kind, kind, (low, high))
        self.assertEqual(judge(measured(-0.05, 0.05), "").text, "within 0.10")
        self.assertEqual(judge(measured(0.05, 0.2), "").text, "no verdict: the interval reaches to both sides of 0.10")

    def test_without_an_interval_or_with_disturbed_times_there_is_none(self):
        self.assertEqual(judge(Measured(0.01), "").text, "no verdict: too few values for an interval")
        self.assertEqual(judge(measured(-0.01, 0.01), "timing disturbed: x").text, "no verdict: timing disturbed: x")
        self.assertEqual(judged(StepTime(1, "a", "lan", "1f1b", 2, 1, 4)).text, "")


def of_grid(codecs, seconds, gain=None, **more):
    t = StepTime(1, "a", "lan", "1f1b", 2, 1, 4, measured_s=Measured(seconds), measured_steps=9, p2_s=0.9 * seconds, p1_s=2.0,
                 p3_s=1.0)
    out = TimingCell("lan", codecs, "1f1b", 2, 1, {1: t}, step_s=Measured(seconds), residual=measured(0.09, 0.12),
                     parts_s=(0.5 * seconds, 0, 0, 0.4 * seconds, 0.1 * seconds), gain=gain, **more)
    out.verdict = judge(out.residual, out.note)
    return out


class TimingTest(unittest.TestCase):
    def test_a_codec_pays_where_the_interval_of_its_gain_lies_above_one(self):
        for low, high, words in ((1.01, 1.2, "pays"), (0.99, 1.2, "no difference shown"), (0.8, 0.99, "costs")):
            self.assertEqual(gain_verdict(of_grid("int4", 1.0, measured(low, high))), words)
        self.assertEqual(gain_verdict(of_grid("int4", 1.0, Measured(2.0))), "no difference shown")
        self.assertEqual(gain_verdict(of_grid("int4", 1.0, measured(1.1, 1.2), gain_disturbed=True)),
                         "no verdict: timing disturbed")

    def test_shares_are_of_the_step_and_programs_get_seconds(self):
        table = timing_table(TimingFindings([of_grid("none", 2.0), TimingCell("wan", "int4", "1f1b", 2, 1, invalid=3)], None, 0))
        rows = csv_rows(table)
        row = dict(zip(rows[0], rows[1]))
        self.assertEqual([row[key] for key in ("step_s", "compute_s", "wire_s", "p2_s", "gain")], ["2", "1", "0.8", "1.8", ""])
        self.assertIn("no verdict", row["residual_verdict"])
        words = text(table)
        self.assertRegex(words, r"none .* 50 +0 +0 +40 +10 ")
        self.assertIn("3 invalid", words)
        self.assertIn("0 cells within 0.10, 0 beyond, 1 without a verdict", words)


class BytesTest(unittest.TestCase):
    def test_bits_and_counts(self):
        self.assertEqual(bits_per_element(4, 2), 4)
        self.assertIsNone(bits_per_element(0, 2))
        crossing = types.SimpleNamespace(predicted_wire_bytes=200, kernel_tx_bytes=201)
        self.assertAlmostEqual(percent_over_prediction(crossing), 0.5)
        for predicted, counted in ((None, 1), (1, None), (0, 1)):
            crossing.predicted_wire_bytes, crossing.kernel_tx_bytes = predicted, counted
            self.assertIsNone(percent_over_prediction(crossing))


class ParetoTest(unittest.TestCase):
    def test_a_point_is_on_the_front_unless_another_beats_it(self):
        self.assertEqual(pareto_front([(1, 5), (2, 4), (2, 5), (3, 4), (1, 5)]), [True, True, False, False, True])
        self.assertEqual(pareto_front([]), [])
        self.assertEqual(pareto_front([(1, math.inf)]), [True])


if __name__ == "__main__":
    unittest.main()
