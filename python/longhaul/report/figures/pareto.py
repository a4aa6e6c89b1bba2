"""Loss against what it costs: time, bytes, memory, with the arms that no other one beats."""

import matplotlib.pyplot as plt
from longhaul.report.style import COLOURS, INK, SOFT, number, read, save

COSTS = (("time_s", 3600, "hours (simulated)"), ("message_bytes", 1e9, "GB of messages, whole run"),
         ("memory_bytes", 1e6, "MB of a rank, as planned"))
MOST_NAMES = 14  # more names of one front lie on one another


def pareto(folder):
    rows = read(folder, "pareto")
    shown = [cost for cost in COSTS if len({row[cost[0]] for row in rows if row[cost[0]]}) > 1]
    if not shown:
        return
    figure, panels = plt.subplots(len(shown), 1, figsize=(8.2, 3.2 * len(shown)), squeeze=False)
    for axes, (column, unit, label) in zip([row[0] for row in panels], shown):
        known = sorted((row for row in rows if row[column]), key=lambda row: float(row[column]))
        front = [row for row in known if row[column.removesuffix("_s") + "_front"] == "1"]
        axes.step([float(row[column]) / unit for row in front], [float(row["loss_nat"]) for row in front],
                  where="post", color=COLOURS[0], lw=1.6, label="no arm has less of both")
        for row in known:
            x, y = float(row[column]) / unit, float(row["loss_nat"])
            low, high = number(row["loss_nat_low"]), number(row["loss_nat_high"])
            colour = COLOURS[0] if row in front else SOFT
            filled = row["role"] == "arm"
            if low is not None:
                axes.plot([x, x], [low, high], color=colour, lw=1)
            axes.plot([x], [y], "o", ms=6, color=colour, mfc=colour if filled else "none")
            if row in front[:MOST_NAMES]:
                axes.annotate(row["arm"], (x, y), xytext=(5, 5), textcoords="offset points", fontsize=9, color=INK)
        axes.set_xlabel(label)
        axes.set_ylabel("held-out loss, nat per token\n(axis does not start at 0)")
    panels[0][0].legend(fontsize=9)
    figure.tight_layout()
    save(figure, folder, "pareto")
