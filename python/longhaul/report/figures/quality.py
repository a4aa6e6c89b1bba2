"""Figures of a campaign's arms: reference curve, residuals, depth, forest."""

import math

import matplotlib.pyplot as plt
import numpy as np
from longhaul.report.style import ASSUMED, ASSUMED_Q, COLOURS, D0_REFERENCE, INK, LINE, MODEL_STYLES, SOFT
from longhaul.report.style import codecs_of, estimate, extremes, interval, number, read, save

MOST_LINES = 40  # of a figure that has a line for each arm


def reference(folder):
    """Figure 1: every uncompressed run, the fit, and the horizontal read-off of each arm."""
    fit = [(float(row["budget"]), float(row["loss_nat"])) for row in read(folder, "fit")]
    losses = [row for row in read(folder, "losses") if row["budget"]]
    if not fit or not losses:
        return
    figure, axes = plt.subplots(figsize=(8.2, 4.3))
    fitted = [row for row in losses if row["role"] == "reference"]
    budgets = [float(row["budget"]) for row in fitted]
    first, last = min(budgets), max(budgets)
    axes.plot([x for x, _ in fit], [y for _, y in fit], color=COLOURS[0], lw=1.8,
              label="through the means")
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
    deltas, etas, cut = {}, {}, set()
    for row in read(folder, "arms"):
        if row["evaluation"] == "off" and row["role"] == "arm" and row["reference"] == D0_REFERENCE:
            deltas[row["arm"]], etas[row["arm"]] = number(row["delta_nat"]), number(row["eta"])
            if row["bound"]:
                cut.add(row["arm"])
    labels = []
    deltas = {arm: deltas[arm] for arm in extremes(deltas, MOST_LINES // 2)}
    for i, arm in enumerate(sorted(deltas, key=lambda name: deltas[name])):
        level, budget = loss_at(1.0, fit) + deltas[arm], etas[arm]
        colour = COLOURS[1 + i % (len(COLOURS) - 1)]
        end = min(max(budget, first), last)
        axes.plot([end, 1.0], [level, level], color=colour, lw=1.2, ls="--")
        axes.plot([1.0] * len(by_arm.get(arm, [])), by_arm.get(arm, []), "D", ms=4, color=colour)
        off = arm in cut
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


def loss_at(budget, fit):
    """The curve at a budget between its first and last."""
    return np.interp(math.log(budget), [math.log(x) for x, _ in fit], [y for _, y in fit])


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


def direction(row):
    """Which directions an arm compresses."""
    return "backward" if row["forward"] == "none" else "forward" if row["backward"] == "none" else "both directions"


def family(row):
    """What arms that differ in depth alone share."""
    return codecs_of(row) if "forward" in row else row["codecs"], row["reference"]


def depth(folder):
    """Figure 2: ln eta against crossings with bars, the joint fit and the assumed 0.995."""
    arms = [row for row in read(folder, "arms")
            if row["evaluation"] == "off" and row["role"] == "arm" and row["crossings"] != "0"
            and row["q"]]
    fit = [(float(row["budget"]), float(row["loss_nat"])) for row in read(folder, "fit")]
    if not arms or not fit:
        return
    panels = sorted({direction(row) for row in arms})
    figure, all_axes = plt.subplots(1, len(panels), figsize=(8.2, 4.1), sharey=True, squeeze=False)
    by_arm = {}
    for row in read(folder, "losses"):
        by_arm.setdefault(row["arm"], {})[row["seed"]] = float(row["loss_off_nat"])
    joint = {family(row): row for row in read(folder, "joint")
             if row["evaluation"] == "off" and row["q"]}
    models = {}
    for row in read(folder, "depth_models"):
        models.setdefault(family(row), {}).setdefault((row["model"], row["chosen"]), []).append(
            (float(row["crossings"]), float(row["ln_eta"])))
    for axes, panel in zip(all_axes[0], panels):
        rows = [row for row in arms if direction(row) == panel]
        most = max(int(row["crossings"]) for row in rows)
        ks = [0, most * 1.08]
        # A boundary is crossed twice: where one direction is compressed its crossing stands for both.
        assumed = ASSUMED_Q if all("none" not in (row["forward"], row["backward"]) for row in rows) else ASSUMED_Q**2
        axes.plot(ks, [k * math.log(assumed) for k in ks], color=ASSUMED, lw=1.2, ls="--",
                  label=f"assumed q = {assumed:.3f}")
        for i, codecs in enumerate(sorted({family(row) for row in rows})):
            colour = COLOURS[i % len(COLOURS)]
            depth_fits(axes, ks, joint.get(codecs), models.get(codecs, {}), colour, i == 0)
            for row in (row for row in rows if family(row) == codecs):
                depth_seeds(axes, most * 0.015, row, by_arm, fit, colour)
                estimate(axes, int(row["crossings"]), row, "ln_eta", True, colour)
        axes.axhline(0, color=LINE, lw=1)
        axes.set_xlim(0, most * 1.12)
        axes.set_xlabel(f"crossings K, {panel}")
        axes.legend(loc="lower left", fontsize=9)
    all_axes[0][0].set_ylabel("ln η, codec off at evaluation")
    save(figure, folder, "depth")


def depth_fits(axes, ks, joint, models, colour, named):
    """The joint fit of a family with its band, and its other depth models."""
    if joint:
        q, low, high = interval(joint, "q")
        axes.plot(ks, [k * math.log(q) for k in ks], color=colour, lw=1.5,
                  label=f"joint fit, q = {q:.4f}")
        if low is not None:
            axes.fill_between(ks, [k * math.log(low) for k in ks], [k * math.log(high) for k in ks],
                              color=colour, alpha=0.12, lw=0)
    for (model, chosen), points in models.items():
        if model == "M1":  # the joint fit
            continue
        axes.plot([k for k, _ in points], [y for _, y in points], color=colour,
                  lw=1.6 if chosen == "1" else 0.9, ls=MODEL_STYLES[model], alpha=0.8,
                  label=model + (", preferred" if chosen == "1" else "") if named else None)


def depth_seeds(axes, beside, row, by_arm, fit, colour):
    """Each seed of an arm, a little beside its mean."""
    d0 = by_arm.get(row["reference"], {})
    seeds = [ln_eta_of(loss - d0[seed], fit)
             for seed, loss in by_arm.get(row["arm"], {}).items() if seed in d0]
    # Where the curve does not reach, a seed has no place either.
    seeds = [y for y in seeds if y is not None]
    axes.plot([int(row["crossings"]) + beside] * len(seeds), seeds, "o", ms=4, mfc="none", mec=colour,
              alpha=0.8)


def ln_eta_of(delta, fit):
    """Where the curve has a loss that is `delta` above its own at D0, as ln(D/D0); None outside."""
    loss = loss_at(1.0, fit) + delta
    falling = [(y, x) for x, y in fit][::-1]
    if not falling[0][0] <= loss <= falling[-1][0]:
        return None
    return math.log(np.interp(loss, [y for y, _ in falling], [x for _, x in falling]))


def forest(folder):
    """Figure 3: q per arm, codec off and on, and the joint fits, with lines at 1 and 0.995."""
    arms = [row for row in read(folder, "arms") if row["role"] == "arm"]
    lines = []  # label, {evaluation: row}, is joint, note
    q_of = dict.fromkeys(row["arm"] for row in arms)
    q_of.update({row["arm"]: number(row["q"]) for row in arms if row["evaluation"] == "off"})
    names = extremes(q_of, MOST_LINES)
    for name in names:
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
    some = "" if len(names) == len(q_of) else f"\n{len(names)} of {len(q_of)} arms: the lowest and the highest q"
    axes.set_xlabel("q per crossing (axis does not start at 0); filled: codec off at evaluation, "
                    "open: on" + some)
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
