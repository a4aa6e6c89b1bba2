"""What the figures promise a reader."""

import os
import tempfile
import unittest

from longhaul.refusal import Refused, need

try:
    need("matplotlib", "a figure")
except Refused as missing:
    raise unittest.SkipTest(str(missing)) from missing

from longhaul.report.figures import draw
from longhaul.report.figures.outer import traffic
from longhaul.report.figures.pareto import pareto
from longhaul.report.figures.runs import at
from longhaul.report.style import COLOURS, MOST_CURVES, extremes, look

HEAD = ("arm,role,seeds,loss_nat,loss_nat_low,loss_nat_high,time_s,time_front,message_bytes,message_bytes_front,"
        "memory_bytes,memory_bytes_front\n")


class FiguresTest(unittest.TestCase):
    def test_no_two_curves_look_alike_and_none_has_a_marker_where_another_has_one(self):
        for points in (60, 149, 200):
            for of in range(1, MOST_CURVES + 1):
                looks = [look(i, of, points) for i in range(of)]
                seen = {(one["color"], str(one["ls"]), one["marker"]) for one in looks}
                assert len(seen) == of, (of, seen)
                places = [set(range(*one["markevery"][:1], points, one["markevery"][1])) for one in looks]
                assert all(place for place in places) and len(set.union(*places)) == sum(map(len, places)), (points, of)
                if of > len(COLOURS):
                    assert looks[0]["color"] == looks[len(COLOURS)]["color"] and looks[0]["ls"] != looks[len(COLOURS)]["ls"]
                widths = [one["lw"] for one in looks]
                assert widths == sorted(widths, reverse=True) and len(set(widths)) == of, widths

    def test_of_many_arms_the_lowest_and_the_highest_are_shown(self):
        values = {f"arm{i}": float((i * 37) % 101) for i in range(101)}
        shown = extremes(values, 12)
        assert sorted(values[name] for name in shown) == [*range(6), *range(95, 101)], shown
        assert shown == [name for name in values if name in shown]
        assert extremes({"a": 1.0, "b": None}, 12) == ["a", "b"]
        assert extremes({"a": 1.0, "b": None, "c": 2.0, "d": 3.0}, 2) == ["a", "d"]

    def test_of_steps_at_one_place_of_the_axis_the_last_counts(self):
        assert at([0, 0, 0, 5, 5], [9, 8, 7, 2, 1], 0) == 7 and at([0, 0, 0, 5, 5], [9, 8, 7, 2, 1], 2.5) == 4.5
        assert at([0, 0], [3, 4], 0) == 4

    def test_an_arm_whose_groups_send_nothing_is_not_in_the_figure_of_bytes(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("wire", "arm,outer_bytes\nnone,\nfew,1e6\nmany,2e7\n"),
                               ("losses", "arm,train_tokens\nfew,10\nmany,20\nnone,20\n"),
                               ("arms", "arm,evaluation,delta_nat,delta_low,delta_high\nfew,off,0.5,0.4,0.6\nmany,off,0.1,,\n"
                                        "none,off,0,,\n")):
                with open(os.path.join(folder, name + ".csv"), "w", encoding="utf-8") as file:
                    file.write(text)
            traffic(folder)
            with open(os.path.join(folder, "traffic.svg"), encoding="utf-8") as file:
                drawn = file.read()
        assert "<!-- few -->" in drawn and "<!-- many -->" in drawn and "<!-- none -->" not in drawn

    def test_of_costs_that_all_arms_share_no_front_is_drawn(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "pareto.csv"), "w", encoding="utf-8") as file:
                file.write(HEAD + "slow,reference,2,2.0,1.9,2.1,7200,1,0,1,5e6,1\nquick,arm,1,2.5,,,3600,1,0,0,5e6,0\n"
                           "beaten,arm,1,2.6,,,3700,0,,,5e6,0\n")
            pareto(folder)  # memory and bytes are the same for all that have them: hours alone are drawn
            with open(os.path.join(folder, "pareto.svg"), encoding="utf-8") as file:
                drawn = file.read()
        assert "<!-- slow -->" in drawn and "<!-- quick -->" in drawn and "<!-- beaten -->" not in drawn
        assert "hours (simulated)" in drawn and "MB of a rank" not in drawn and "GB of messages" not in drawn

    def test_a_figure_of_an_earlier_report_is_none_of_this_one(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "forest.svg"), "w", encoding="utf-8") as file:
                file.write("<svg></svg>")
            self.assertEqual(draw(folder), {})
            self.assertEqual(os.listdir(folder), [])


if __name__ == "__main__":
    unittest.main()
