"""Draws the figures of a report from its CSV files.

    python plots.py FOLDER...

Each FOLDER is one experiment of a report: it holds curve.csv, losses.csv, arms.csv and joint.csv (a
campaign, with residuals.csv and depth_models.csv), training.csv and step_times.csv. Figures whose data are there are
written beside them as SVG: reference, residuals, depth, forest, training, step_times. Needs matplotlib and nothing else; imports no torch.
"""

import csv
import math
import os
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

INK, SOFT, LINE = "#1d2733", "#5b6875", "#c9d1d9"
ASSUMED = "#b3261e"
COLOURS = ["#12507b", "#c2571a", "#2f7d4f", "#7a4a9c", "#8a6d00", "#0f7f86"]
ASSUMED_Q = 0.995
D0_REFERENCE = "reference@1"
MODEL_STYLES = {"M2": (0, (1, 3)), "M3": ":", "M4": "-.", "M5": (0, (4, 2, 1, 2, 1, 2))}

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


def save(figure, folder, name):
    plt.rcParams["svg.hashsalt"] = folder + name  # ids of two inlined figures must differ
    figure.savefig(os.path.join(folder, name + ".svg"), bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)


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


def reference(folder):
    """Figure 1: every uncompressed run, the fit, and the horizontal read-off of each arm."""
    curve = {row["name"]: float(row["value"]) for row in read(folder, "curve")}
    losses = [row for row in read(folder, "losses") if row["budget"]]
    if not curve or not losses:
        return
    beta, floor, slope = curve["beta"], curve["floor_nat"], curve["slope_nat"]
    loss_at = lambda budget: floor + slope / beta * budget ** -beta  # noqa: E731
    figure, axes = plt.subplots(figsize=(8.2, 4.3))
    fitted = [row for row in losses if row["role"] == "reference"]
    budgets = [float(row["budget"]) for row in fitted]
    first, last = min(budgets), max(budgets)
    xs = [first * (last / first) ** (i / 200) for i in range(201)]
    axes.plot(xs, [loss_at(x) for x in xs], color=COLOURS[0], lw=1.8, label="fit")
    axes.plot(budgets, [float(row["loss_off_nat"]) for row in fitted], "o", ms=5, mfc="none",
              mec=COLOURS[0], label="reference run")
    controls = [row for row in losses if row["role"] == "control"]
    if controls:
        axes.plot([float(row["budget"]) for row in controls],
                  [float(row["loss_off_nat"]) for row in controls], "x", ms=6, color=SOFT,
                  label="control, not fitted")
    by_arm = {}
    for row in losses:
        if row["role"] == "arm":
            by_arm.setdefault(row["arm"], []).append(float(row["loss_off_nat"]))
    deltas, cut = {}, set()
    for row in read(folder, "arms"):
        if row["evaluation"] == "off" and row["role"] == "arm" and row["reference"] == D0_REFERENCE:
            deltas[row["arm"]] = number(row["delta_nat"])
            if row["bound"]:
                cut.add(row["arm"])
    labels = []
    for i, arm in enumerate(sorted(deltas, key=lambda name: deltas[name])):
        level = loss_at(1.0) + deltas[arm]
        inside = (level - floor) * beta / slope
        budget = inside ** (-1 / beta) if inside > 0 else None
        colour = COLOURS[1 + i % (len(COLOURS) - 1)]
        end = min(max(budget or first, first), last)
        axes.plot([end, 1.0], [level, level], color=colour, lw=1.2, ls="--")
        axes.plot([1.0] * len(by_arm.get(arm, [])), by_arm.get(arm, []), "D", ms=4, color=colour)
        off = arm in cut or budget is None or budget < first
        if off:  # it would be read further left, where no reference ran
            axes.plot([first], [level], "<", ms=7, color=colour, clip_on=False)
        labels.append((level, f"{arm}: " + (f"\u2264 {first:.3f} D0" if off else
                                            f"reads {budget:.3f} D0"), colour))
    axes.axvline(1.0, color=LINE, lw=1)
    axes.set_xscale("log")
    ticks = sorted({round(budget, 2) for budget in budgets})
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("token budget D / D0 (log scale)")
    axes.set_ylabel("final held-out loss, nat per token\n(axis does not start at 0)")
    axes.set_xlim(first * 0.95, last * 1.04)
    spread_labels(axes, last * 1.06, labels)
    axes.legend(loc="upper right")
    save(figure, folder, "reference")


def spread_labels(axes, x, labels):
    """Labels to the right of the axes at their levels, moved apart where they would overlap."""
    low, high = axes.get_ylim()
    step = (high - low) * 0.055
    placed = []
    for level, _, _ in sorted(labels):
        placed.append(max(level, placed[-1] + step) if placed else level)
    lift = sum(y - level for y, (level, _, _) in zip(placed, sorted(labels))) / max(1, len(labels))
    for y, (level, text, colour) in zip(placed, sorted(labels)):
        axes.annotate(text, (1.0, level), xytext=(x, y - lift), textcoords="data", va="center",
                      color=colour, fontsize=9, annotation_clip=False,
                      arrowprops={"arrowstyle": "-", "color": colour, "lw": 0.6, "alpha": 0.6})


def depth(folder):
    """Figure 2: ln eta against crossings with bars, the joint fit and the assumed 0.995."""
    arms = [row for row in read(folder, "arms")
            if row["evaluation"] == "off" and row["role"] == "arm" and row["crossings"] != "0"
            and row["q"]]
    curve = {row["name"]: float(row["value"]) for row in read(folder, "curve")}
    if not arms or not curve:
        return
    direction = lambda row: ("backward" if row["forward"] == "none" else  # noqa: E731
                             "forward" if row["backward"] == "none" else "both directions")
    panels = sorted({direction(row) for row in arms})
    figure, all_axes = plt.subplots(1, len(panels), figsize=(8.2, 4.1), sharey=True, squeeze=False)
    losses = read(folder, "losses")
    by_arm = {}
    for row in losses:
        by_arm.setdefault(row["arm"], {})[row["seed"]] = float(row["loss_off_nat"])
    family = lambda row: (codecs_of(row) if "forward" in row else row["codecs"],  # noqa: E731
                          row["reference"])
    joint = {family(row): row for row in read(folder, "joint")
             if row["evaluation"] == "off" and row["q"]}
    models = {}
    for row in read(folder, "depth_models"):
        key = (row["codecs"], row["reference"])
        models.setdefault(key, {}).setdefault((row["model"], row["chosen"]), []).append(
            (float(row["crossings"]), float(row["ln_eta"])))
    for axes, panel in zip(all_axes[0], panels):
        rows = [row for row in arms if direction(row) == panel]
        most = max(int(row["crossings"]) for row in rows)
        ks = [0, most * 1.08]
        axes.plot(ks, [k * math.log(ASSUMED_Q) for k in ks], color=ASSUMED, lw=1.2, ls="--",
                  label="assumed q = 0.995")
        for i, codecs in enumerate(sorted({family(row) for row in rows})):
            colour = COLOURS[i % len(COLOURS)]
            if codecs in joint:
                q, low, high = interval(joint[codecs], "q")
                axes.plot(ks, [k * math.log(q) for k in ks], color=colour, lw=1.5,
                          label=f"joint fit, q = {q:.4f}")
                if low is not None:
                    axes.fill_between(ks, [k * math.log(low) for k in ks],
                                      [k * math.log(high) for k in ks], color=colour, alpha=0.12,
                                      lw=0)
            for (model, chosen), points in models.get(codecs, {}).items():
                if model == "M1":  # the joint fit
                    continue
                axes.plot([k for k, _ in points], [y for _, y in points], color=colour,
                          lw=1.6 if chosen == "1" else 0.9, ls=MODEL_STYLES[model], alpha=0.8,
                          label=model + (", preferred" if chosen == "1" else "") if i == 0 else None)
            for row in (row for row in rows if family(row) == codecs):
                k = int(row["crossings"])
                d0 = by_arm.get(row["reference"], {})
                seeds = [exact_ln_eta(loss - d0[seed], curve)
                         for seed, loss in by_arm.get(row["arm"], {}).items() if seed in d0]
                # Where the curve does not reach, a seed has no place either.
                seeds = [y for y in seeds if y >= math.log(curve["smallest_budget"])]
                axes.plot([k + most * 0.015] * len(seeds), seeds, "o", ms=4, mfc="none", mec=colour,
                          alpha=0.8)
                estimate(axes, k, row, "ln_eta", True, colour)
        axes.axhline(0, color=LINE, lw=1)
        axes.set_xlim(0, most * 1.12)
        axes.set_xlabel(f"crossings K, {panel}")
        axes.legend(loc="lower left", fontsize=9)
    all_axes[0][0].set_ylabel("ln η, codec off at evaluation")
    save(figure, folder, "depth")


def exact_ln_eta(delta, curve):
    """The curve inverted: agrees with -delta/s where the loss is small."""
    inside = 1 + curve["beta"] * delta / curve["slope_nat"]
    return -math.log(inside) / curve["beta"] if inside > 0 else math.inf


def forest(folder):
    """Figure 3: q per arm, codec off and on, and the joint fits, with lines at 1 and 0.995."""
    arms = [row for row in read(folder, "arms") if row["role"] == "arm"]
    lines = []  # label, {evaluation: row}, is joint, note
    for name in dict.fromkeys(row["arm"] for row in arms):
        rows = {row["evaluation"]: row for row in arms if row["arm"] == name}
        any_row = next(iter(rows.values()))
        values = {e: row for e, row in rows.items() if e and row["q"]}
        note = any_row["note"] or (f"no q: {any_row['changes']}" if any_row["changes"] else "")
        if values or note:
            label = f"{name}   S = {any_row['stages']}\n{codecs_of(any_row)}"
            lines.append((label, values, False, note))
    joint = read(folder, "joint")
    for codecs, arms_of in dict.fromkeys((row["codecs"], row["arms"]) for row in joint):
        rows = [row for row in joint if (row["codecs"], row["arms"]) == (codecs, arms_of)]
        values = {row["evaluation"]: row for row in rows if row["q"]}
        lines.append((f"{arms_of} together\n{codecs}", values, True, rows[0]["note"]))
    if not lines:
        return
    figure, axes = plt.subplots(figsize=(8.2, 0.9 + 0.62 * len(lines)))
    axes.axvline(1, color=INK, lw=1)
    axes.axvline(ASSUMED_Q, color=ASSUMED, lw=1.2, ls="--")
    for y, (label, values, is_joint, note) in enumerate(lines):
        colour = COLOURS[0] if is_joint else COLOURS[1]
        for shift, evaluation, fill in ((-0.13, "off", colour), (0.13, "on", "white")):
            if evaluation not in values:
                continue
            estimate(axes, y + shift, values[evaluation], "q", False, colour, fill,
                     "D" if is_joint else "o")
        if not values:
            axes.text(ASSUMED_Q, y, note, va="center", ha="right", color=ASSUMED, fontsize=9)
    axes.set_yticks(range(len(lines)), [label for label, *_ in lines], color=INK, fontsize=9.5)
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    axes.annotate("0.995 assumed", (ASSUMED_Q, 1), xycoords=("data", "axes fraction"), xytext=(-4, 4),
                  textcoords="offset points", ha="right", fontsize=9, color=ASSUMED)
    axes.annotate("1 = no loss", (1, 1), xycoords=("data", "axes fraction"), xytext=(4, 4),
                  textcoords="offset points", ha="left", fontsize=9, color=INK)
    axes.set_xlabel("q per crossing (axis does not start at 0); filled: codec off at evaluation, "
                    "open: on")
    save(figure, folder, "forest")


def residuals(folder):
    """How far the uncompressed runs lie from the fit: as they are, and less each seed's mean."""
    rows = read(folder, "residuals")
    if not rows:
        return
    figure, panels = plt.subplots(1, 2, figsize=(8.2, 3.5), sharey=True)
    seeds = sorted({row["seed"] for row in rows}, key=int)
    fitted = [row for row in rows if row["role"] == "reference"]
    for axes, key in zip(panels, ("residual_nat", "within_seed_nat")):
        axes.axhline(0, color=INK, lw=1)
        for i, seed in enumerate(seeds):
            colour = COLOURS[i % len(COLOURS)]
            mine = sorted((float(row["budget"]), float(row[key])) for row in fitted
                          if row["seed"] == seed)
            # More seeds than colours are not told apart, and need no names.
            axes.plot([x for x, _ in mine], [y for _, y in mine], "o-", ms=4, lw=0.9, mfc="none",
                      color=colour, alpha=0.9, label=f"seed {seed}" if len(seeds) <= 6 else None)
            axes.plot([float(row["budget"]) for row in rows
                       if row["role"] == "control" and row["seed"] == seed],
                      [float(row[key]) for row in rows
                       if row["role"] == "control" and row["seed"] == seed], "x", ms=6, color=colour)
        budgets = sorted({float(row["budget"]) for row in fitted})
        axes.set_xscale("log")
        axes.set_xticks(budgets, [f"{budget:.2g}" for budget in budgets])
        axes.minorticks_off()
        axes.set_xlabel("token budget D / D0 (log scale)")
    for budget in budgets:
        values = [float(row["within_seed_nat"]) for row in fitted if float(row["budget"]) == budget]
        panels[1].plot([budget], [sum(values) / len(values)], "_", ms=22, mew=2.2, color=INK)
    panels[0].set_ylabel("loss less the fit, nat per token")
    panels[0].set_title("as they are", fontsize=10, loc="left")
    panels[1].set_title("less the mean of each seed; bar: mean", fontsize=10, loc="left")
    if len(seeds) <= 6:
        panels[0].legend(fontsize=9)
    figure.tight_layout()
    save(figure, folder, "residuals")


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
    """ys over xs, linear between its points."""
    for i in range(1, len(xs)):
        if x <= xs[i]:
            share = (x - xs[i - 1]) / (xs[i] - xs[i - 1])
            return ys[i - 1] + min(1, max(0, share)) * (ys[i] - ys[i - 1])
    return ys[-1]


def band(axes, seeds, colour, label, style, unit):
    """Mean over seeds as far as all of them go, and the range they span."""
    end = min(xs[-1] for xs, _ in seeds.values())
    grid = [x for x in next(iter(seeds.values()))[0] if x <= end]
    values = [[at(xs, ys, x) for xs, ys in seeds.values()] for x in grid]
    axes.plot([x / unit for x in grid], [sum(v) / len(v) for v in values], color=colour, lw=1.6,
              ls=style, marker="o" if len(grid) == 1 else None, label=label)
    if len(seeds) > 1:
        axes.fill_between([x / unit for x in grid], [min(v) for v in values],
                          [max(v) for v in values], color=colour, alpha=0.15, lw=0)


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
    below = reference is not None and bool(others)
    figure, panels = plt.subplots(2 if below else 1, 1, figsize=(8.2, 6.2 if below else 3.9),
                                  sharex=True, squeeze=False)
    top = panels[0][0]
    most = max(float(row["tokens"]) for row in shown)
    unit, unit_name = (1e6, "millions") if most >= 1e6 else (1e3, "thousands")
    if reference is not None:
        band(top, reference, INK, "reference, no codec", "-", unit)
    for i, arm in enumerate(others):
        colour = COLOURS[i % len(COLOURS)]
        style = ("-", "--", ":")[i // len(COLOURS) % 3]
        band(top, arms[arm], colour, arm, style, unit)
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
            band(panels[1][0], paired, colour, arm, style, unit)
    top.set_ylabel("training loss, nat per token\n(axis does not start at 0)")
    top.legend(fontsize=9, ncols=1 + (len(arms) > 6))
    if below:
        panels[1][0].axhline(0, color=INK, lw=1)
        panels[1][0].set_ylabel("difference to the reference,\nnat per token (smoothed)")
    panels[-1][0].set_xlabel(f"tokens trained, {unit_name}")
    figure.align_ylabels()
    figure.tight_layout()
    save(figure, folder, "training")


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
    for i, profile in enumerate(sorted({row["profile"] for row in rows})):
        mine = [row for row in rows if row["profile"] == profile]
        axes.plot([float(row["p2_s"]) for row in mine], [float(row["measured_s"]) for row in mine],
                  "o", ms=7, color=COLOURS[i % len(COLOURS)], label=profile)
        for row in mine:
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


def main(folders):
    for folder in folders:
        for draw in (reference, residuals, depth, forest, training, step_times):
            draw(folder)


if __name__ == "__main__":
    main(sys.argv[1:])
