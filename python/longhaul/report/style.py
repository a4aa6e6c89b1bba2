"""What all figures share: colours, reading a CSV, a value with its interval, saving."""

import csv
import io
import os

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

INK, SOFT, LINE = "#1d2733", "#5b6875", "#c9d1d9"
ASSUMED = "#b3261e"
COLOURS = ["#12507b", "#c2571a", "#2f7d4f", "#7a4a9c", "#8a6d00", "#0f7f86"]
ASSUMED_Q = 0.995
D0_REFERENCE = "reference@1"
DASHES = ["-", (0, (6, 2)), (0, (2, 1.5)), (0, (7, 2, 1.5, 2))]
MARKERS = ["o", "s", "^", "D", "v", "P", "X"]
MOST_CURVES = 12  # more are no longer told apart
MODEL_STYLES = {"M4": "-."}

plt.rcParams.update({
    "font.size": 10.5, "axes.edgecolor": SOFT, "axes.labelcolor": INK, "text.color": INK,
    "xtick.color": SOFT, "ytick.color": SOFT, "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "grid.color": "#edf0f3", "axes.axisbelow": True, "legend.frameon": False,
    "svg.fonttype": "path", "savefig.transparent": True,
})


def read(folder, name):
    path = os.path.join(folder, name + ".csv")
    if not os.path.exists(path):
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def number(text):
    return float(text) if text else None


def interval(row, name):
    """value, low, high; low and high are None without an interval."""
    return number(row[name]), number(row[name + "_low"]), number(row[name + "_high"])


def look(i, of, points):
    """How curve i of `of` is drawn, so that two which lie on one another are both seen: no two have one colour, dash
    and marker, later ones are thinner, and each has its markers where no other has them."""
    every = max(1, points // 5)
    return {"color": COLOURS[i % len(COLOURS)], "ls": DASHES[i % len(DASHES)], "lw": 2.4 - 1.2 * i / max(1, of),
            "marker": MARKERS[i % len(MARKERS)], "ms": 4.5, "markevery": (i * every // max(1, of) % every, every)}


def extremes(values, most):
    """{name: number or None} -> the names to show, in their order: all, or the `most` lowest and highest."""
    if len(values) <= most:
        return list(values)
    known = sorted((name for name in values if values[name] is not None), key=lambda name: values[name])
    shown = set(known[:most // 2] + known[max(most // 2, len(known) - (most - most // 2)):])
    return [name for name in values if name in shown]


def svg(figure, name):
    """The figure from "<svg" on: what stands before it is an XML prologue that HTML does not take."""
    plt.rcParams["svg.hashsalt"] = name  # ids of two inlined figures must differ
    text = io.StringIO()
    figure.savefig(text, format="svg", bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
    return text.getvalue()[text.getvalue().index("<svg"):]


def save(figure, folder, name):
    with open(os.path.join(folder, name + ".svg"), "w", encoding="utf-8") as file:
        file.write(svg(figure, folder + name))


def codecs_of(row):
    return row["forward"] + " / " + row["backward"]


def estimate(axes, at, row, name, upright, colour, fill=None, marker="o"):
    """Column `name` of `row` with its interval, at `at` on the other axis.

    An upper bound is an arrow from the bound towards less: there is no value to draw a point at. A bar
    whose low end is cut at the smallest reference budget ends in an arrow head.
    """
    value, low, high = interval(row, name)
    place = (lambda v: ([at], [v])) if upright else (lambda v: ([v], [at]))
    less, cap = ("v", "_") if upright else ("<", "|")
    if row.get("bound") == "<=":
        axes.plot(*place(value), cap, ms=11, mew=2, color=colour)
        axes.annotate("", xy=[x[0] for x in place(value)], xytext=(0, -26) if upright else (-26, 0),
                      textcoords="offset points",
                      arrowprops={"arrowstyle": "<|-", "color": colour, "lw": 1.6, "shrinkB": 0})
        return
    bars = None if low is None else [[max(0, value - low)], [max(0, high - value)]]
    axes.errorbar(*place(value), **{"yerr" if upright else "xerr": bars}, fmt=marker, ms=6.3,
                  color=colour, mfc=fill or colour, mec=colour, capsize=3.5, lw=1.6)
    if row.get("low_bound") == "<=":
        axes.plot(*place(low), less, ms=7, color=colour)
