"""The price of crossings over the size of the model, in both currencies."""

import math

import matplotlib.pyplot as plt
from style import COLOURS, DASHES, MARKERS, SOFT, interval, read, save

PRICES = (("minus_ln_eta", "-ln \u03b7"), ("delta_nat", "\u0394, nat"))


def law(folder):
    """Two panels over N, log-log: -ln eta is level under token transfer, Delta under loss transfer. Colour: arm; dash and
    marker: tokens a parameter, rounded; open and dotted: foretold."""
    rows = read(folder, "law")
    if not rows:
        return
    aims = read(folder, "law_aims")
    arms = list(dict.fromkeys(row["arm"] for row in rows))
    ratios = sorted({round(float(row["tokens"]) / float(row["parameters"])) for row in rows})
    figure, panels = plt.subplots(1, 2, figsize=(8.6, 4.1))
    for axes, (column, label) in zip(panels, PRICES):
        for i, arm in enumerate(arms):
            colour = COLOURS[i % len(COLOURS)]
            shift = math.exp(0.05 * (i - (len(arms) - 1) / 2))  # arms beside one another
            for j, ratio in enumerate(ratios):
                mine = sorted((float(row["parameters"]), *interval(row, column)) for row in rows
                              if row["arm"] == arm and row[column]
                              and round(float(row["tokens"]) / float(row["parameters"])) == ratio)
                mine = [point for point in mine if point[1] > 0]
                if not mine:
                    continue
                axes.plot([n * shift for n, *_ in mine], [x for _, x, *_ in mine], color=colour, lw=1.1,
                          ls=DASHES[j % len(DASHES)], marker=MARKERS[j % len(MARKERS)], ms=5)
                floor = min(x for _, x, *_ in mine) / 10
                for n, _, low, high in mine:
                    axes.plot([n * shift] * 2, [max(low, floor), high], color=colour, lw=1.4)
            quantity = "Delta" if column == "delta_nat" else "-ln eta"
            for row in aims:
                if row["arm"] != arm or row["quantity"] != quantity:
                    continue
                n, value = float(row["parameters"]) * shift, float(row["value"])
                low, high = (float(row[end]) if row[end] else None for end in ("low", "high"))
                axes.plot([n], [value], marker="o", ms=5, mfc="white", mec=colour)
                if low is not None:
                    axes.plot([n] * 2, [max(low, value / 10), high], color=colour, lw=1, ls=":")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("parameters N")
        axes.set_ylabel(label + " (log scale)")
    for i, arm in enumerate(arms):
        panels[0].plot([], [], color=COLOURS[i % len(COLOURS)], lw=2, label=arm)
    for j, ratio in enumerate(ratios):
        panels[1].plot([], [], color=SOFT, ls=DASHES[j % len(DASHES)], marker=MARKERS[j % len(MARKERS)],
                       label=f"{ratio:g} tokens a parameter")
    for axes in panels:
        axes.legend(fontsize=8)
    figure.tight_layout()
    save(figure, folder, "law")
