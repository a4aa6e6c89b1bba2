"""A campaign's analysis as tables and words: what `measure` prints at its end and a report shows."""

import datetime
import math

from longhaul.analysis.advice import learnt_nothing
from longhaul.analysis.campaign import D0_REFERENCE, Arm, CampaignAnalysis, Family
from longhaul.analysis.changes import changes_text
from longhaul.analysis.curve import curve_error_text
from longhaul.analysis.diloco import INTERACTION
from longhaul.analysis.efficiency import (ABOVE, ABOVE_ONE_WAY, BELOW, BELOW_ONE_WAY, NOT_RESOLVED, assumed_q)
from longhaul.analysis.findings import STEPS_OF_A_LOSS
from longhaul.analysis.interval import cut_below, mapped, pairs_needed, t_quantile
from longhaul.record.rows import LOSSES
from longhaul.tables import LOW_END, Measured, Table, cell, grid_text, none, text, with_interval, wrapped

EIGHT_STAGE_FLOOR = 0.90  # "eight stages keep eta_act >= 0.90": true from q = 0.90^(1/K) on


def verdict_text(arm: Arm) -> str:
    """q against what planning assumes, or why there is none."""
    text = arm.verdict
    if arm.changes:
        text += f": {changes_text(arm.changes)}"
    if arm.other_build:
        text += f": another build, {arm.other_build}"
    return text + (f" (against {arm.reference})" if arm.reference != D0_REFERENCE else "")


def _arms_grid(a):
    """The arms with the codec off at evaluation and, where a boundary has one, on: first what a boundary costs in nat, q
    last. With P and rho, two tables: one would be wider than a screen."""
    arms = [arm for arm in a.arms if arm.role == "arm"]
    priced = any(arm.price for arm in arms)
    costs = Table(columns="arm | forward / backward | S | n | codec | delta nat | a boundary, nat")
    costs.add_columns("P/boundary | rho" if priced else [])
    shares = Table(columns="arm | codec" if priced else [])
    shares.add_columns("eta | K | q | against 0.995")
    for arm in arms:
        for evaluation, e in (("off", arm.off), ("on", arm.on if arm.crossings else None)):
            off = evaluation == "off"
            if not off and not (e and arm.off):
                continue
            head = (arm.name, arm.codecs, arm.stages, e.seeds if e else arm.seeds) if off else ("", "", none(""), none(""))
            cost = [cell(e.delta_nat, 3), cell(arm.a_boundary(e.delta_nat), 4)] if e else [cell(arm.delta_alone, 3), none()]
            if priced:
                cost += [none("")] * 2 if off else [cell(arm.a_boundary(arm.price), 4), cell(arm.rho, 2)]
            share = [cell(e.eta, 2) if e else none(), arm.crossings if off else none(""), cell(e.q, 4) if e else none(),
                     (verdict_text(arm) if e else arm.note) if off else ""]
            costs.add(*head, evaluation, *cost, *([] if priced else share))
            if priced:
                shares.add(head[0], evaluation, *share)
    if not priced:
        costs.columns += shares.columns
    return grid_text(costs) + ("\n" + grid_text(shares) if priced else "")


def _family_lines(family: Family):
    names = "; ".join(f"{arm.name}, K = {arm.crossings}" for arm in family.arms)
    text = f"{family.codecs} ({names}): "
    if not family.off:
        return f"{text}{family.note}\n"
    many = len(family.fitted)
    text += (f"q per crossing {with_interval(family.off.q)} over {many} depth{'' if many == 1 else 's'} together (M1), "
             f"{family.verdict}")
    on = with_interval(family.on.q) if family.on else family.on_note
    return wrapped(text, 110, "  ") + f"  with the codec on at evaluation {on}\n"


def _control_line(arm):
    if not arm.off:
        return f"control {arm.name}: {arm.note}\n"
    return (f"control {arm.name}: true eta {arm.trained_fraction:.4f}, recovered {with_interval(arm.off.eta, 3)}: "
            f"{arm.control_verdict}\n")


def campaign_table(a: CampaignAnalysis, everything: bool = False) -> str:
    """Per arm mean loss difference, eta and q with 95 % intervals, codec off and on at evaluation, against 0.995 or
    what else the arm changes; the joint q of each codec; controls; diverged reference runs; A/A; the summary.

    `everything`: also the reference curve and all tables of findings_tables."""
    out = wrapped(a.resolvable) + wrapped(a.conditions) + "\n" + _arms_grid(a) + "\n"
    if a.curve and everything:
        out += (
            f"reference curve: through the mean losses of {len(a.curve.budgets)} budgets, slope at D0 "
            f"{a.curve.slope_nat:.3f} nat per e-fold of tokens\n"
            + wrapped(f"  {curve_error_text(a.curve)}", 100, "  ")
        )
    out += "".join(map(_family_lines, a.families))
    for arm in a.arms:
        if arm.role == "control":
            out += _control_line(arm)
        if arm.role == "reference" and arm.lost:
            out += f"{arm.name}: {arm.lost_text}\n"
    out += "".join(f"{check.text}\n" for check in a.identities)
    out += "".join(f"not of one build and machine: {line}\n" for line in a.builds)
    out += "".join(f"{line}\n" for line in learnt_nothing(a))
    if everything:
        out += "".join("\n" + text(table) for table in findings_tables(a))
    summary = campaign_summary(a)
    return f"{out}\n{wrapped(summary)}" if summary else out


# --- findings


def findings_tables(a: CampaignAnalysis) -> list[Table]:
    """What a campaign's families say together, each finding once, in the order in which they are read. Empty where a
    control failed: an instrument in doubt tells no models apart."""
    if a.failed_controls:
        return []
    tables = [_tests(a), _depths(a), _directions(a), _contrasts(a), _diloco(a), _on_off(a), _times(a.findings)]
    return [table for table in tables if table.rows]


def _tests(a):
    table = Table("Tests named beforehand", "test | arm |  | p | p by Holm")
    primary = a.arm(a.findings.primary)
    if not primary:
        return table
    table.add(
        "primary", primary.name, f"ln eta {with_interval(primary.off.ln_eta)}" if primary.off else primary.note, "", ""
    )
    for t in a.findings.secondary:
        table.add(f"secondary: {t.name}", t.arm, t.note, f"{t.p:.3g}",
                  f"{t.adjusted:.3g}, {'shown' if t.adjusted <= 0.05 else 'not shown'}")
    named = {primary.name, *(t.arm for t in a.findings.secondary)}
    rest = [arm.name for arm in a.arms if arm.role == "arm" and arm.name not in named]
    arms = f", arms {', '.join(rest)}" if rest else ""
    table.notes = ["Two-sided, 5 %, against no loss; the secondary ones by Holm over all of them. Everything else is "
                   f"exploratory{arms}."]
    return table


def _depths(a):
    table = Table(
        "How the loss grows with depth",
        "codec forward / backward | model | parameters | held out | ",
        notes=[
            "-ln eta as M1: a K; M4: a K^gamma. M4 is preferred only where gamma is shown not to be 1 and no held-out"
            " depth is missed by more than two standard errors; z = (predicted - measured) / se."
        ],
    )
    for family in a.families:
        for fit in family.depths.fits if family.depths else ():
            parameters = "; ".join(f"{name} {with_interval(x)}" for name, x in fit.parameters.items()) or fit.note
            held = "; ".join(f"S = {h.stages}: z {h.z:+.1f}" for h in fit.held_out) or "-"
            table.add(family.codecs, fit.model, parameters, held,
                      family.depths.words if fit.model == family.depths.chosen else "")
    return table


def _directions(a):
    table = Table(
        "Directions",
        "codec forward / backward | seeds | q_f | q_b | interaction | ",
        notes=[
            "From arms with one direction compressed, K = S - 1. Interaction: ln eta of both less that of each; where"
            " it excludes 0, only arms with both feed the simulator."
        ],
    )
    for d in a.findings.directions:
        interactions = "; ".join(f"S = {i.stages}: {with_interval(i.ln) if i.ln else i.note}" for i in d.interactions)
        table.add(f"{d.forward_codec} / {d.backward_codec}", d.seeds, cell(d.q_forward, 4), cell(d.q_backward, 4),
                  interactions, d.note or d.words)
    return table


def _contrasts(a):
    table = Table(
        "Position and learning rate",
        "what | seeds | value",
        notes=[
            "M6: -ln eta as a sum over cuts of a(l/L), from arms with one cut each. At the best rates each side has the"
            " rate of its own lowest loss."
        ],
    )
    for c in a.findings.contrasts:
        table.add(c.name, c.seeds, with_interval(c.value) if c.value else c.note)
    return table


def _diloco(a):
    table = Table("DiLoCo, factor by factor", "factor | seeds | value", notes=[
        "Exploratory, global-batch-matched where it does not say local."])
    for x in a.findings.factors:
        table.add(f"ln eta: {x.name}" if x.kind == INTERACTION else x.name, x.seeds,
                  with_interval(x.value) if x.value else x.note)
    return table


def _on_off(a):
    table = Table(
        "Codec off against on",
        "arm | seeds | off - on, nat",
        notes=[
            "Held-out loss of the same weights with the codec off less that with it on, paired by seed (losses of"
            " single blocks are not recorded)."
        ],
    )
    for arm in a.arms:
        if arm.on_off:
            table.add(arm.name, arm.seeds, with_interval(arm.on_off))
    return table


def _scaled(x, unit):
    return mapped(x, lambda value: value / unit) if x else None


def _times(f):
    table = Table(
        f"Time to a training loss of {f.target_loss_nat:g} nat (simulated)",
        "arm | reached by | hours (simulated) | tokens, millions",
        notes=[
            f"reached: the mean of {STEPS_OF_A_LOSS} steps, over groups, is at or below it; t over seeds, and no "
            "mean where a seed did not get there. Hours of the simulated clock are no evidence of real ones."
        ],
    )
    for t in f.times_to_loss:
        table.add(
            t.arm, f"{t.reached} of {t.seeds}", cell(_scaled(t.simulated_s, 3600), 4), cell(_scaled(t.tokens, 1e6), 4)
        )
    return table


# --- in words


def _percent(share):
    return f"{100 * share:.2g} %"


def _cost(arm):
    """"s8 raises the held-out loss by 0.0210 nat [0.0160, 0.0260]; an uncompressed run reaches that loss with 6.4 %
    fewer tokens [4.9, 8.0]"."""
    e, delta, eta = arm.off, arm.off.delta_nat, arm.off.eta
    ends = f" [{delta.interval.low:.4f}, {delta.interval.high:.4f}]" if delta.interval else ""
    out = f"{arm.name} {'changes' if delta.value < 0 else 'raises'} the held-out loss by {delta.value:.4f} nat{ends}"
    if arm.on and arm.crossings:
        out += f" ({with_interval(arm.on.delta_nat)} with the codec on)"
    if each := arm.a_boundary(delta):
        out += f", {each.value:.4f} a boundary"
    if arm.rho:
        out += (f"; on weights trained without it the same boundaries cost {with_interval(arm.price)}, of which training "
                f"through them costs rho = {with_interval(arm.rho, 2)} times as much, codec on")
    if delta.value < 0:
        return out
    out += (
        f"; an uncompressed run reaches that loss with {'at least ' if e.is_bound else ''}{_percent(1 - eta.value)}"
        " fewer tokens"
    )
    if e.is_bound or not eta.interval:
        return out
    sign = ">= " if eta.bound == LOW_END else ""
    return f"{out} [{sign}{100 * (1 - eta.interval.high):.2g}, {100 * (1 - eta.interval.low):.2g}]"


def _time(utc):
    try:
        return datetime.datetime.fromisoformat(utc)
    except (TypeError, ValueError):
        return None


def _seconds_per_seed(a):
    """One seed of the whole campaign, its runs one after another; 0: no run has both times."""
    seconds, seeds = 0.0, set()
    for run in (o.run for arm in a.arms for o in arm.outcomes):
        begun, finished = _time(run.begun_utc), _time(run.finished_utc)
        if LOSSES in run.facts or not begun or not finished:
            continue  # read from a file in no time
        seconds += (finished - begun).total_seconds()
        seeds.add(run.seed)
    return seconds / len(seeds) if seeds else 0.0


def _duration(minutes):
    """As "1h30m0s"."""
    return (f"{minutes // 60}h" if minutes >= 60 else "") + (f"{minutes % 60}m" if minutes % 60 else "")


def _seeds_for(arm):
    """Seeds in all with which the difference to what planning assumes is found in four campaigns of five."""
    e, i = arm.off, arm.off.ln_eta.interval
    effect = e.ln_eta.value - arm.crossings * math.log(assumed_q(arm.directions))
    sd = (i.high - i.low) / 2 / t_quantile(0.5 + i.level / 2, e.seeds - 1) * math.sqrt(e.seeds)
    return pairs_needed(abs(effect) / sd) if sd > 0 else 2


def _to_settle(a, arm):
    assumed = "0.990 per boundary" if arm.directions == 1 else "0.995"
    seeds = _seeds_for(arm)
    if seeds > 1000:
        return f"{arm.name} is so close to {assumed} that 1,000 seeds would not separate them."
    more = max(1, seeds - arm.off.seeds)
    out = f"Separating {arm.name} from {assumed} with 80 % power takes {seeds} seeds, {more} more, if its mean stays"
    each = _seconds_per_seed(a)
    if each > 0:
        out += f" ({_duration(math.ceil(each * more / 60))} of runs one after another at this campaign's pace)"
    return out + "."


def _sensitivity(arm):
    """What the arm's q would do to eight stages in a planning model."""
    if not arm.off.q:
        return ""
    k, assumed = (14 if arm.crossings == 2 * (arm.stages - 1) else 7), assumed_q(arm.directions)
    eta, i = f"{arm.off.q.value ** k:.2f}", arm.off.q.interval
    if i:
        eta += f" [{i.low ** k:.2f}, {i.high ** k:.2f}]"
    return (
        f" Sensitivity of a planner (no verdict on other models): eight stages (K = {k}) have an efficiency of {eta}"
        f" with this q and {assumed ** k:.2f} with {assumed:.3f}; {EIGHT_STAGE_FLOOR:g} or more takes q >="
        f" {EIGHT_STAGE_FLOOR ** (1 / k):.4f}."
    )


def campaign_summary(a: CampaignAnalysis) -> str:
    """One paragraph: what the primary arm costs, in which arms 0.995 is excluded, in which not, and how many more
    seeds, how long, would separate the primary one or the nearest. "": there is no curve or no arm with a q."""
    if a.failed_controls:
        return (
            "No conclusion: a control run did not recover its known efficiency. Look for what disturbed the runs, or"
            " for budgets too far apart, before running more seeds."
        )
    named = a.arm(a.findings.primary)
    primary = named if named and named.off else next((arm for arm in a.arms if arm.has_q and arm.off), None)
    if not a.curve or not primary:
        return ""
    arms = [arm for arm in a.arms if arm.has_q and arm.off]

    def names(verdict, directions=None):
        return ", ".join(arm.name for arm in arms if arm.verdict == verdict and directions in (None, arm.directions))
    size = f" at {a.parameters / 1e6:.3g} M parameters" if a.parameters > 0 else ""
    parts = [(names(BELOW), f"q = 0.995 per crossing is too high{size}"),
             (names(ABOVE), f"q = 0.995 per crossing is too low{size}"),
             (names(BELOW_ONE_WAY), "One direction, less than 0.990 per boundary"),
             (names(ABOVE_ONE_WAY), "One direction, more than 0.990 per boundary"),
             (names(NOT_RESOLVED, 2), f"Not distinguishable from 0.995{size}"),
             (names(NOT_RESOLVED, 1), "One direction, not distinguishable from 0.990 per boundary")]
    out = f"{_cost(primary)}." + "".join(f" {what}: {who}." for who, what in parts if who)
    opened = [arm for arm in arms if arm.verdict == NOT_RESOLVED]
    # Of the open ones the primary, else the one that needs the fewest seeds.
    nearest = primary if any(arm is primary for arm in opened) else min(opened, key=_seeds_for, default=None)
    if nearest and not nearest.off.is_bound:
        out += f" {_to_settle(a, nearest)}"
    settled = {BELOW, ABOVE, BELOW_ONE_WAY, ABOVE_ONE_WAY, NOT_RESOLVED}
    single = ", ".join(arm.name for arm in arms if arm.verdict not in settled)
    if single:
        out += f" Without an interval: {single}."
    return out + _sensitivity(primary)


# --- for a planner


def planned_depths(family: Family) -> list[tuple[int, float, Measured, bool]]:
    """What the planner's activation efficiency becomes: S, what it assumes, what was measured, whether by an arm at
    this S (else from q of the family)."""
    found = []
    for stages in (2, 4, 8):
        k = family.directions * (stages - 1)
        arm = family.at_stages(stages)
        if arm and arm.off:
            measured = arm.off.eta
        elif family.off:
            measured = cut_below(family.smallest_budget, mapped(family.off.q, lambda q, k=k: q ** k))
        else:
            continue
        found.append((stages, assumed_q(family.directions) ** k, measured, bool(arm and arm.off)))
    return found
