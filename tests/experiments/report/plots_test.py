"""What the figures promise a reader.

    plots_test.py FOLDER_OF_THE_PLOTS

Of steps that send nothing, which lie at one place of the axis of bytes, the last counts; an arm whose groups send nothing
is not in the figure of bytes. Of costs that all arms share no front is drawn, and only who is on one has a name there.
Curves that lie on one another are told apart: no two have the same colour, dash and marker, and none has a marker where
another has one. Of many arms the lowest and the highest are shown.
"""

import importlib.util
import os
import sys
import tempfile

if importlib.util.find_spec("matplotlib") is None:
    sys.exit(77)
sys.path.insert(0, sys.argv[1])
from outer import traffic  # noqa: E402
from pareto import pareto  # noqa: E402
from runs import at  # noqa: E402
from style import COLOURS, MOST_CURVES, extremes, look  # noqa: E402

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

values = {f"arm{i}": float((i * 37) % 101) for i in range(101)}
shown = extremes(values, 12)
assert sorted(values[name] for name in shown) == [*range(6), *range(95, 101)], shown
assert shown == [name for name in values if name in shown]
assert extremes({"a": 1.0, "b": None}, 12) == ["a", "b"]
assert extremes({"a": 1.0, "b": None, "c": 2.0, "d": 3.0}, 2) == ["a", "d"]

assert at([0, 0, 0, 5, 5], [9, 8, 7, 2, 1], 0) == 7 and at([0, 0, 0, 5, 5], [9, 8, 7, 2, 1], 2.5) == 4.5
assert at([0, 0], [3, 4], 0) == 4

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

HEAD = ("arm,role,seeds,loss_nat,loss_nat_low,loss_nat_high,time_s,time_front,message_bytes,message_bytes_front,"
        "memory_bytes,memory_bytes_front\n")
with tempfile.TemporaryDirectory() as folder:
    with open(os.path.join(folder, "pareto.csv"), "w", encoding="utf-8") as file:
        file.write(HEAD + "slow,reference,2,2.0,1.9,2.1,7200,1,0,1,5e6,1\nquick,arm,1,2.5,,,3600,1,0,0,5e6,0\n"
                   "beaten,arm,1,2.6,,,3700,0,,,5e6,0\n")
    pareto(folder)  # memory and bytes are the same for all that have them: hours alone are drawn
    with open(os.path.join(folder, "pareto.svg"), encoding="utf-8") as file:
        drawn = file.read()
assert "<!-- slow -->" in drawn and "<!-- quick -->" in drawn and "<!-- beaten -->" not in drawn
assert "hours (simulated)" in drawn and "MB of a rank" not in drawn and "GB of messages" not in drawn
