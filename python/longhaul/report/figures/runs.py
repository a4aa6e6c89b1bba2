"""Figures of runs: training curves, step times."""

import matplotlib
import matplotlib.pyplot as plt
from longhaul.report.style import COLOURS, INK, MOST_CURVES, SOFT, extremes, look, read, save


def curves_of(rows):
    """{arm: {seed: ([tokens], [loss])}}, arms in their order; the last run of an arm and seed."""
    by_run = {}
    for row in rows:
        by_run.setdefault((row["arm"], row["seed"], row["run"]), []).append(
            (float(row["tokens"]), float(row["loss_nat"])))
    arms = {}
    for (arm, seed, _), points in by_run.items():
        arms.setdefault(arm, {})[seed] = ([x for x, _ in points], [y for _, y in points])
    return arms


def at(xs, ys, x):
    """ys over xs, linear between its points; of several at one x (steps that send nothing) the last."""
    for i in range(1, len(xs)):
        if xs[i - 1] < xs[i] and x <= xs[i]:
            share = (x - xs[i - 1]) / (xs[i] - xs[i - 1])
            return ys[i - 1] + min(1, max(0, share)) * (ys[i] - ys[i - 1])
    return ys[-1]


def band(axes, seeds, label, unit, **style):
    """Mean over seeds as far as all of them go, and the range they span."""
    end = min(xs[-1] for xs, _ in seeds.values())
    grid = [x for x in next(iter(seeds.values()))[0] if x <= end]
    values = [[at(xs, ys, x) for xs, ys in seeds.values()] for x in grid]
    if len(grid) == 1:
        style = {**style, "marker": style.get("marker", "o")}
    axes.plot([x / unit for x in grid], [sum(v) / len(v) for v in values], label=label, **style)
    if len(seeds) > 1:
        axes.fill_between([x / unit for x in grid], [min(v) for v in values],
                          [max(v) for v in values], color=style["color"], alpha=0.15, lw=0)


def last_loss(seeds):
    """Mean over seeds of the last tenth of the curve."""
    tails = [ys[-max(1, len(ys) // 10):] for _, ys in seeds.values()]
    return sum(sum(tail) / len(tail) for tail in tails) / len(tails)


def smoothed(ys, width=9):
    """Mean over up to `width` neighbouring points."""
    half = width // 2
    return [sum(ys[max(0, i - half):i + half + 1]) / len(ys[max(0, i - half):i + half + 1])
            for i in range(len(ys))]


def training(folder):
    """Training loss along the runs at D0, and its paired difference to the reference at D0."""
    rows = read(folder, "training")
    shown = [row for row in rows if row["role"] in ("arm", "single")
             or (row["role"] == "reference" and row["arm"] == "reference@1")]
    if not shown:
        return
    arms = curves_of(shown)
    reference = arms.get("reference@1")
    others = [arm for arm in arms if arm != "reference@1"]
    drawn = extremes({arm: last_loss(arms[arm]) for arm in others}, MOST_CURVES)
    below = reference is not None and bool(others)
    figure, panels = plt.subplots(2 if below else 1, 1, figsize=(8.2, 6.2 if below else 3.9),
                                  sharex=True, squeeze=False)
    top = panels[0][0]
    most = max(float(row["tokens"]) for row in shown)
    unit, unit_name = (1e6, "millions") if most >= 1e6 else (1e3, "thousands")
    if reference is not None:
        band(top, reference, "reference, no codec", unit, color=INK, lw=3)
    for i, arm in enumerate(drawn):
        style = look(i, len(drawn), max(len(xs) for xs, _ in arms[arm].values()))
        band(top, arms[arm], arm, unit, **style)
        if not below:
            continue
        paired = {}
        for seed in arms[arm].keys() & reference.keys():
            xs, ys = arms[arm][seed]
            base_xs, base_ys = reference[seed]
            inside = [j for j, x in enumerate(xs) if x <= base_xs[-1]]
            if inside:
                apart = [ys[j] - at(base_xs, base_ys, xs[j]) for j in inside]
                paired[seed] = ([xs[j] for j in inside], smoothed(apart))
        if paired:
            band(panels[1][0], paired, arm, unit, **style)
    top.set_ylabel("training loss, nat per token\n(axis does not start at 0)")
    top.legend(fontsize=9, ncols=1 + (len(drawn) > 6))
    if len(drawn) < len(others):
        top.set_title(f"{len(drawn)} of {len(others)} arms: the lowest and the highest at their end", fontsize=10,
                      loc="left")
    if below:
        panels[1][0].axhline(0, color=INK, lw=1)
        panels[1][0].set_ylabel("difference to the reference,\nnat per token (smoothed)")
    panels[-1][0].set_xlabel(f"tokens trained, {unit_name}")
    figure.align_ylabels()
    figure.tight_layout()
    save(figure, folder, "training")


def simulated(folder):
    """Training loss over the hours of a simulated clock, and over bytes."""
    rows = [row for row in read(folder, "training") if row.get("simulated_s")]
    if not rows:
        return
    figure, panels = plt.subplots(2, 1, figsize=(8.2, 6.2))
    for axes, column, unit, label in ((panels[0], "simulated_s", 3600, "hours (simulated)"),
                                      (panels[1], "message_bytes", 1e9, "GB of messages")):
        arms = curves_of([{**row, "tokens": row[column]} for row in rows])
        drawn = extremes({arm: last_loss(arms[arm]) for arm in arms}, MOST_CURVES)
        for i, arm in enumerate(drawn):
            style = look(i, len(drawn), max(len(xs) for xs, _ in arms[arm].values()))
            band(axes, arms[arm], arm, unit, **style)
        axes.set_xlabel(label)
        axes.set_ylabel("training loss, nat per token\n(axis does not start at 0)")
    panels[0].legend(fontsize=9, ncols=1 + (len(drawn) > 6))
    figure.tight_layout()
    save(figure, folder, "simulated")


def step_times(folder):
    """Figure 7: measured against predicted step time per link profile, with the 10 % band."""
    rows = [row for row in read(folder, "step_times") if row["p2_s"]]
    if not rows:
        return
    figure, axes = plt.subplots(figsize=(8.2, 4.3))
    seconds = [float(row[key]) for row in rows for key in ("p2_s", "measured_s")]
    low, high = min(seconds) / 1.3, max(seconds) * 1.3
    axes.fill_between([low, high], [low * 0.9, high * 0.9], [low * 1.1, high * 1.1], color="#e8eef3",
                      lw=0, label="±10 %")
    axes.plot([low, high], [low, high], color=SOFT, lw=1)
    named = set(extremes({row["run"]: float(row["measured_s"]) / float(row["p2_s"]) for row in rows}, 2 * MOST_CURVES))
    for i, profile in enumerate(sorted({row["profile"] for row in rows})):
        mine = [row for row in rows if row["profile"] == profile]
        axes.plot([float(row["p2_s"]) for row in mine], [float(row["measured_s"]) for row in mine],
                  "o", ms=7, color=COLOURS[i % len(COLOURS)], label=profile)
        for row in mine:
            if row["run"] not in named:
                continue
            axes.annotate(row["arm"], (float(row["p2_s"]), float(row["measured_s"])), xytext=(8, -4),
                          textcoords="offset points", fontsize=9, color=INK)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(low, high)
    axes.set_ylim(low, high)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(matplotlib.ticker.LogLocator(base=10, subs=(1, 1.5, 2, 3, 5, 7)))
        axis.set_major_formatter(matplotlib.ticker.FormatStrFormatter("%g"))
        axis.set_minor_locator(matplotlib.ticker.NullLocator())
    axes.set_xlabel("predicted step time (P2), s (log scale)")
    axes.set_ylabel("measured step time, s (log scale)")
    axes.legend(loc="upper left")
    save(figure, folder, "step_times")
