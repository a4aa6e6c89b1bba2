"""Figures of a planning scenario whose factors have ranges."""

import math

import matplotlib.pyplot as plt

from longhaul.report.style import ASSUMED, COLOURS, INK, LINE, read, save

WIDE, NARROW = 0.18, 0.32  # how dense the bands are
MOST_PANELS = 4
COLUMNS = {"quantity", "middle", "p05", "p25", "median", "p75", "p95"}
LEVERS = {"quantity", "factor", "factor_low", "factor_high", "at_low", "at_middle", "at_high", "moves"}


def is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


def counted(rows):
    """The rows of C_quality where it is counted (it is not C_local then), else of C_local."""
    by = {name: [row for row in rows if row["quantity"] == name] for name in ("c_quality", "c_local")}
    middles = {name: [row.get("middle") or row.get("at_middle") for row in of] for name, of in by.items()}
    return by["c_quality"] if by["c_quality"] and middles["c_quality"] != middles["c_local"] else by["c_local"]


def panels_of(rows, axes):
    """{words: rows}: one panel for each combination of the axes, the first few."""
    panels = {}
    for row in rows:
        panels.setdefault(", ".join(f"{axis} {row[axis]}" for axis in axes), []).append(row)
    return dict(list(panels.items())[:MOST_PANELS])


def fan(folder):
    """A quantity over the first axis of numbers: 90 % and 50 % of the draws, their median, and the middles."""
    rows = counted(read(folder, "spread"))
    axes = [name for name in rows[0] if name not in COLUMNS] if rows else []
    along = next((axis for axis in axes if len({row[axis] for row in rows}) > 1
                  and all(is_number(row[axis]) for row in rows)), None)
    if along is None:
        return
    panels = panels_of(rows, [axis for axis in axes if axis != along])
    figure, places = plt.subplots(1, len(panels), figsize=(4.6 * len(panels), 4), sharey=True, squeeze=False)
    for place, (title, mine) in zip(places[0], panels.items()):
        mine = sorted(mine, key=lambda row: float(row[along]))
        x = [float(row[along]) for row in mine]
        y = {name: [float(row[name]) for row in mine] for name in COLUMNS - {"quantity"}}
        place.fill_between(x, y["p05"], y["p95"], color=COLOURS[0], alpha=WIDE, lw=0, label="90 % of the draws")
        place.fill_between(x, y["p25"], y["p75"], color=COLOURS[0], alpha=NARROW, lw=0, label="50 %")
        place.plot(x, y["median"], color=COLOURS[0], marker="o", ms=4, label="median")
        place.plot(x, y["middle"], color=ASSUMED, ls="--", lw=1.2, label="every factor at its middle")
        if min(x) > 0 and max(x) >= 20 * min(x):
            place.set_xscale("log")
        place.set_yscale("log")
        place.set_title(title, fontsize=10)
        place.set_xlabel(along)
    places[0][0].set_ylabel(f"{rows[0]['quantity']}, FLOP (log scale)")
    places[0][0].legend(fontsize=8)
    save(figure, folder, "fan")


def tornado(folder):
    """What one factor moves, the others at their middle, the one that moves most on top."""
    rows = counted(read(folder, "tornado"))
    if not rows:
        return
    panels = panels_of(rows, [name for name in rows[0] if name not in LEVERS])
    figure, places = plt.subplots(1, len(panels), figsize=(4.6 * len(panels), 1.4 + 0.5 * max(map(len, panels.values()))),
                                  squeeze=False)
    for place, (title, mine) in zip(places[0], panels.items()):
        exponent = math.floor(math.log10(float(mine[0]["at_middle"])))
        middle = float(mine[0]["at_middle"]) / 10**exponent
        for i, row in enumerate(mine):
            for end, colour in (("high", COLOURS[0]), ("low", COLOURS[1])):
                place.barh(-i, float(row["at_" + end]) / 10**exponent - middle, left=middle, color=colour, height=0.6,
                           label=f"factor {end}" if i == 0 else None)
        place.axvline(middle, color=INK, lw=1)
        place.set_yticks([-i for i in range(len(mine))],
                         [f"{row['factor']}\n{float(row['factor_low']):g} to {float(row['factor_high']):g}" for row in mine],
                         fontsize=8)
        place.grid(axis="y", color=LINE, lw=0)
        place.set_title(title, fontsize=10)
        place.set_xlabel(f"{mine[0]['quantity']}, 1e{exponent} FLOP (axis does not start at 0)", fontsize=9)
    places[0][0].legend(fontsize=8)
    save(figure, folder, "tornado")
