"""Figures of DiLoCo's cells, of what groups send each other, and of two records beside each other."""

import matplotlib.pyplot as plt
from longhaul.report.style import ASSUMED, COLOURS, INK, LINE, estimate, interval, number, read, save

BATCHES = {"global-batch-matched": "-", "local-batch-matched": "--"}


def lines_over(axes, rows, key, other, assumed, word, against):
    """eta over column `key`, a line for each value of `other` and batch; the planner's own factor dashed."""
    axes.axhline(1, color=LINE, lw=1)
    groups = sorted({(int(row[other]), row["batch"]) for row in rows})
    levels = sorted({level for level, _ in groups})
    for level, batch in groups:
        mine = sorted((row for row in rows if (int(row[other]), row["batch"]) == (level, batch)),
                      key=lambda row: int(row[key]))
        colour = COLOURS[levels.index(level) % len(COLOURS)]
        solid = [row for row in mine if not row["bound"]]
        axes.plot([int(row[key]) for row in solid], [float(row["eta"]) for row in solid], color=colour,
                  lw=1.1, ls=BATCHES[batch],
                  label=f"{word} = {level}" + (", local batch" if batch.startswith("local") else ""))
        for row in mine:
            estimate(axes, int(row[key]), row, "eta", True, colour,
                     None if batch.startswith("global") else "white")
    curve = sorted({(int(row[key]), float(row[assumed])) for row in rows if row[assumed]})
    if curve:
        axes.plot([x for x, _ in curve], [y for _, y in curve], color=ASSUMED, lw=1.2, ls="--",
                  label=f"planner's {assumed}")
    axes.set_xscale("log")
    ticks = sorted({int(row[key]) for row in rows})
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel(against)
    axes.legend(fontsize=8)


def diloco(folder):
    """Figure 6: eta against H, against M and by codec of the outer delta, with the planner's curves."""
    rows = [row for row in read(folder, "diloco") if row["eta"]]
    grid = [row for row in rows if row["codec"] == "none" and not row["boundary"]]
    if not grid:
        return
    coded = {(row["groups"], row["inner_steps"], row["batch"]) for row in rows
             if row["codec"] != "none" and not row["boundary"]}
    codecs = [row for row in rows if not row["boundary"]
              and (row["groups"], row["inner_steps"], row["batch"]) in coded]
    wide = 3 if codecs else 2
    figure, panels = plt.subplots(1, wide, figsize=(4.1 * wide, 4.1), sharey=True)
    lines_over(panels[0], grid, "inner_steps", "groups", "eta_H", "M", "inner steps H (log scale)")
    lines_over(panels[1], grid, "groups", "inner_steps", "eta_r", "H", "groups M (log scale)")
    panels[0].set_ylabel("\u03b7, codec off at evaluation\n(axis does not start at 0)")
    if codecs:
        names = list(dict.fromkeys(row["codec"] for row in codecs))
        cells = list(dict.fromkeys((row["groups"], row["inner_steps"]) for row in codecs))
        for row in codecs:
            cell = cells.index((row["groups"], row["inner_steps"]))
            shift = 0.3 * (cell / max(1, len(cells) - 1) - 0.5) if len(cells) > 1 else 0
            estimate(panels[2], names.index(row["codec"]) + shift, row, "eta", True,
                     COLOURS[cell % len(COLOURS)])
        for i, (m, h) in enumerate(cells):
            panels[2].plot([], [], "o", color=COLOURS[i % len(COLOURS)], label=f"M = {m}, H = {h}")
        panels[2].set_xticks(range(len(names)), names, rotation=30, ha="right", fontsize=9)
        panels[2].set_xlabel("codec of the outer delta")
        panels[2].legend(fontsize=8)
    figure.tight_layout()
    save(figure, folder, "diloco")


def traffic(folder):
    """Delta against the bytes that an arm's groups send each other: down and left is better. Filled: D0's tokens; open:
    fewer."""
    sent = {row["arm"]: float(row["outer_bytes"]) / 1e6 for row in read(folder, "wire") if row.get("outer_bytes")}
    rows = [row for row in read(folder, "arms") if row["arm"] in sent and row["evaluation"] == "off" and row["delta_nat"]]
    if len(rows) < 2:
        return
    tokens = {row["arm"]: int(row["train_tokens"]) for row in read(folder, "losses")}
    most = max(tokens[row["arm"]] for row in rows)
    figure, axes = plt.subplots(figsize=(8.2, 5.4))
    axes.axhline(0, color=LINE, lw=1)
    for i, row in enumerate(sorted(rows, key=lambda row: sent[row["arm"]])):
        x, colour = sent[row["arm"]], COLOURS[i % len(COLOURS)]
        value, low, high = (number(row[name]) for name in ("delta_nat", "delta_low", "delta_high"))
        if low is not None:
            axes.plot([x, x], [low, high], color=colour, lw=1.4)
        axes.plot([x], [value], "o", ms=6, mec=colour, mfc=colour if tokens[row["arm"]] == most else "white")
        axes.annotate(row["arm"], (x, value), xytext=(6, 4), textcoords="offset points", fontsize=8, color=INK)
    axes.set_xscale("log")
    axes.set_xlabel("MB that all groups send each other (log scale)")
    axes.set_ylabel("\u0394 to the reference at D0, nat per token")
    save(figure, folder, "traffic")


def compare(folder):
    """Efficiencies of two records, arm by arm, and the difference of each with its interval."""
    rows = [row for row in read(folder, "compare")
            if row["quantity"] == "eta" and row["evaluation"] == "off" and row["a"] and row["b"]]
    if not rows:
        return
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.2, 1.3 + 0.42 * len(rows)), sharey=True)
    left.axvline(1, color=LINE, lw=1)
    right.axvline(0, color=INK, lw=1)
    for y, row in enumerate(rows):
        for shift, name, fill in ((-0.13, "a", None), (0.13, "b", "white")):
            shown = {"x": row[name], "x_low": row[name + "_low"], "x_high": row[name + "_high"],
                     "bound": row[name + "_bound"], "low_bound": row[name + "_low_bound"]}
            estimate(left, y + shift, shown, "x", False, COLOURS[0], fill)
        value, low, _ = interval(row, "difference")
        if value is not None and low is not None:
            apart = row["verdict"] == "apart"
            estimate(right, y, row | {"bound": "", "low_bound": ""}, "difference", False,
                     ASSUMED if apart else COLOURS[0])
    several = len({row["experiment"] for row in rows}) > 1
    names = [(f"{row['experiment']}: " if several else "") + row["arm"] for row in rows]
    left.set_yticks(range(len(rows)), names, color=INK, fontsize=9.5)
    left.set_ylim(len(rows) - 0.4, -0.6)
    left.set_xlabel("\u03b7; filled: A, open: B (axis does not start at 0)")
    right.set_xlabel("\u03b7 of B less that of A, 95 %; red: apart")
    figure.tight_layout()
    save(figure, folder, "compare")
