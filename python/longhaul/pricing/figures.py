"""Figures of a pricing, as SVG. Rows are those of report's tables by their keys, as a CSV has them."""

import matplotlib.pyplot as plt

from longhaul.report.style import COLOURS, MARKERS, SOFT, estimate, interval, svg

DELTA = "delta_nat_per_token"


def by(rows, key):
    """{value of key: rows}, in the order of their coming."""
    groups = {}
    for row in rows:
        groups.setdefault(row[key], []).append(row)
    return groups


def scale(axes, rows):
    """Deltas of all sizes, of both signs: logarithmic beyond half the interval of a typical one."""
    halves = [(high - low) / 2 for _, low, high in (interval(row, DELTA) for row in rows) if low is not None]
    seen = sorted(half for half in halves if half > 0)
    axes.set_yscale("symlog", linthresh=max(seen[len(seen) // 4], 1e-9) if seen else 1e-6)
    axes.axhline(0, color=SOFT, lw=0.8)


def depths(rows):
    """Delta over bits an element, a colour for each number of stages."""
    figure, axes = plt.subplots(figsize=(8.4, 4.6))
    groups = by(rows, "stages")
    for i, (stages, group) in enumerate(groups.items()):
        colour, marker = COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]
        for row in group:
            # A little apart, so that intervals of several depths are all seen.
            at = float(row["bits_per_element"]) + (i - (len(groups) - 1) / 2) * 0.05
            estimate(axes, at, row, DELTA, True, colour, marker=marker)
        axes.plot([], [], marker, color=colour, label=f"S = {stages}")
    scale(axes, rows)
    for codec, group in by(rows, "codec").items():
        top = max(interval(row, DELTA)[2] or interval(row, DELTA)[0] for row in group)
        axes.annotate(codec, (float(group[0]["bits_per_element"]), top), textcoords="offset points",
                      xytext=(0, 7), rotation=60, fontsize=8.5, color=SOFT, ha="left", va="bottom")
    axes.margins(y=0.3)
    axes.set_xlabel("bits an element")
    axes.set_ylabel("$\\Delta$ (nat/token)")
    axes.legend(loc="upper right")
    return svg(figure, "price_depths")


def boundaries(rows):
    """Delta of each boundary alone over the block that it lies before, a colour for each codec."""
    figure, axes = plt.subplots(figsize=(8.4, 4.6))
    for i, (codec, group) in enumerate(by(rows, "codec").items()):
        colour, marker = COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]
        group.sort(key=lambda row: int(row["before_block"]))
        for row in group:
            estimate(axes, int(row["before_block"]), row, DELTA, True, colour, marker=marker)
        axes.plot([int(row["before_block"]) for row in group], [float(row[DELTA]) for row in group], color=colour,
                  lw=1, label=codec)
    scale(axes, rows)
    axes.set_xlabel("block before which the boundary lies")
    axes.set_ylabel("$\\Delta$ of the boundary alone (nat/token)")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return svg(figure, "price_boundaries")
