"""What a campaign's families say together, codec off at evaluation: directions, depth, position, rates, the tests that
were named before the first run, and when a loss was reached."""

import math
from dataclasses import dataclass, field

import numpy as np

from longhaul.analysis import NotEstimated, diloco
from longhaul.analysis.changes import number_of, spec_of
from longhaul.analysis.contrast import Contrast, contrast, of_terms, reference_losses
from longhaul.analysis.depth import HELD_OUT_STAGES, DepthArm, compare_depths
from longhaul.analysis.efficiency import estimate_joint
from longhaul.analysis.interval import holm, mean_of, paired_p
from longhaul.record import Simulated, Step
from longhaul.record.rows import SIMULATED_CLOCK
from longhaul.tables import Measured

# A training loss of single steps is noise around its trend: it is reached at the first step from which the mean of so
# many steps back, over groups, is at or below it.
STEPS_OF_A_LOSS = 20


@dataclass
class Interaction:
    """ln eta_both - ln eta_forward - ln eta_backward at one S."""

    stages: int
    ln: Measured | None = None
    seeds: int = 0
    note: str = ""  # why there is none

    @property
    def excludes_0(self) -> bool:
        return bool(self.ln and self.ln.interval) and not self.ln.interval.low <= 0 <= self.ln.interval.high


@dataclass
class DirectionFinding:
    """One codec pair from its arms with one direction compressed (K = S - 1) and, where there are any, with both."""

    forward_codec: str
    backward_codec: str
    arms: list[str]
    note: str = ""  # why there is no q
    seeds: int = 0
    q_forward: Measured | None = None
    q_backward: Measured | None = None
    interactions: list[Interaction] = field(default_factory=list)

    @property
    def only_both_feeds_the_planner(self) -> bool:
        """The directions do not add up, and only arms with both say what a pipeline loses."""
        return any(i.excludes_0 for i in self.interactions)

    @property
    def words(self) -> str:
        if self.only_both_feeds_the_planner:
            return "the directions do not add up: only arms with both feed the simulator"
        if any(i.ln and i.ln.interval for i in self.interactions):
            return "no interaction of the directions is resolved"
        return "no interaction was measured"


@dataclass
class SecondaryTest:
    """One of the tests that were named before the first run, beside the primary one."""

    name: str  # "S = 8", "forward only", "M1 against a power of K"
    arm: str  # "" where it is about several
    p: float = 1.0
    adjusted: float = 1.0
    note: str = ""  # why it could not be tested: p = 1


@dataclass
class TimeToLoss:
    """When the runs of an arm would have reached a stated training loss."""

    arm: str
    seeds: int  # with a simulated clock
    reached: int  # of those
    simulated_s: Measured | None = None  # where all of them reached it
    tokens: Measured | None = None


@dataclass
class Findings:
    primary: str = ""  # arm, as planned
    directions: list[DirectionFinding] = field(default_factory=list)
    secondary: list[SecondaryTest] = field(default_factory=list)
    contrasts: list[Contrast] = field(default_factory=list)
    target_loss_nat: float = 0.0
    times_to_loss: list[TimeToLoss] = field(default_factory=list)
    cells: list["diloco.Cell"] = field(default_factory=list)
    outer: list["diloco.OuterArm"] = field(default_factory=list)
    factors: list["diloco.Factor"] = field(default_factory=list)


def collect(record, a, plan: dict) -> None:
    """Fills the findings of an analysis whose arms and families are there, and on_off, depths of those."""
    head = plan.get("plan", {})
    primary = head.get("primary", "")
    a.findings.primary = primary if isinstance(primary, str) else ""
    for arm in a.arms:
        if arm.role == "arm" and arm.crossings and not arm.lost:
            differences = [o.off - o.on for o in arm.outcomes if o.off is not None and o.on is not None]
            arm.on_off = mean_of(differences) if differences else None
    for family in a.families:
        try:
            family.depths = _depths(a, family)
        except NotEstimated as why:
            family.depths_note = str(why)
    _collect_directions(a)
    _collect_contrasts(a)
    _test_secondary(a)
    diloco.collect(record, a)
    target = head.get("target_loss_nat")
    if isinstance(target, float):
        _collect_times_to_loss(record, a, target)


# --- depth and directions


def _missing(a, families):
    """Why the arms of `families` say nothing together; "" where they may."""
    if not a.curve:
        return a.curve_note
    for arm in (arm for family in families for arm in family.arms):
        if arm.note:
            return f"arm '{arm.name}': {arm.note}"
        if not arm.off:
            return f"arm '{arm.name}' has no evaluation"
        if arm.off.is_bound:
            return f"arm '{arm.name}' lies below the smallest reference budget"
    return ""


def _depth_arm(arm):
    boundaries = arm.crossings // arm.directions
    return DepthArm(arm.stages, boundaries if arm.forward_codec != "none" else 0,
                    boundaries if arm.backward_codec != "none" else 0, arm.losses())


def _depths(a, family):
    if why := _missing(a, [family]):
        raise NotEstimated(why)
    key = family.arms[0].family_key()
    # Arms of S = 16 that the plan keeps out of the family, all else being equal: a fit is tried on them.
    held_out = [arm for arm in a.arms if arm.held_out and arm.stages >= HELD_OUT_STAGES and arm.has_q and arm.off
                and not arm.off.is_bound and arm.family_key() == key]
    return compare_depths(
        a.curve, reference_losses(a, family.arms[0]), [_depth_arm(arm) for arm in family.arms + held_out]
    )


def _find_q(a, forward, backward, out):
    out.note = _missing(a, [forward, backward])
    if out.note:
        return
    arms = forward.arms + backward.arms
    reference = {seed: loss for seed, loss in reference_losses(a, arms[0]).items()
                 if all(seed in arm.losses() for arm in arms)}
    try:
        f, b = (estimate_joint(a.curve, reference, [(arm.crossings, arm.losses()) for arm in family.fitted])
                for family in (forward, backward))
    except NotEstimated as why:
        out.note = str(why)
        return
    out.seeds, out.q_forward, out.q_backward = f.seeds, f.q, b.q


def _find_directions(a, forward, backward, both):
    families = [forward, backward] + ([both] if both else [])
    out = DirectionFinding(forward.arms[0].forward_codec, backward.arms[0].backward_codec,
                           [arm.name for family in families for arm in family.arms])
    _find_q(a, forward, backward, out)
    for arm in both.arms if both else []:
        f, b = forward.at_stages(arm.stages), backward.at_stages(arm.stages)
        if f and b:
            found = contrast(a, "", [(1.0, arm), (-1.0, f), (-1.0, b)])
            out.interactions.append(Interaction(arm.stages, found.value, found.seeds, found.note))
    a.findings.directions.append(out)


def _sibling(a, like, forward, backward):
    """The family with these codecs and all else like `like`."""
    key = like.arms[0].family_key(codecs=False)
    return next((family for family in a.families
                 if (family.arms[0].forward_codec, family.arms[0].backward_codec) == (forward, backward)
                 and family.arms[0].family_key(codecs=False) == key), None)


def _collect_directions(a):
    """Pairs that arms with both directions name, and one codec against itself."""
    for family in a.families:
        arm = family.arms[0]
        if family.directions == 1:
            codec = arm.forward_codec
            backward = _sibling(a, family, "none", codec) if codec != "none" else None
            if backward and not _sibling(a, family, codec, codec):
                _find_directions(a, family, backward, None)
            continue
        forward, backward = _sibling(a, family, arm.forward_codec, "none"), _sibling(
            a, family, "none", arm.backward_codec
        )
        if forward and backward:
            _find_directions(a, forward, backward, family)


# --- position and learning rate: what blocks L and T of a campaign are for


def _place(arm):
    """Where its cuts are, l/L, and its rate; nothing where the spec cannot be read."""
    spec = spec_of(arm.first)
    blocks, cuts = number_of(spec, "model.blocks"), number_of(spec, "schedule.cuts", list)
    if blocks is None:
        cuts = []
    elif cuts is None:
        cuts = [b / arm.stages for b in range(1, arm.stages)]
    else:
        cuts = [cut / blocks for cut in cuts if type(cut) is int]
    return cuts, number_of(spec, "train.lr", float) or 0.0


def _collect_contrasts(a):
    """Position (M6, -ln eta = sum over cuts of a(l/L)), from arms of one codec pair with one boundary each: tilt, the
    slope of -ln eta over l/L; bow, twice the coefficient of (l/L - 1/2)^2 beside both; and -ln eta of an arm with
    several cuts less the sum over arms that have each of these cuts alone. Learning rate: arms of one codec pair and
    depth against references with the same other rate."""
    places = [(arm, *_place(arm)) for arm in a.arms if arm.has_q]
    alone: dict[tuple, dict] = {}  # by where the one cut is
    for arm, cuts, _ in places:
        if len(cuts) == 1:
            alone.setdefault((arm.reference, arm.forward_codec, arm.backward_codec), {}).setdefault(cuts[0], arm)
    found = a.findings.contrasts
    for pair, at in sorted(alone.items()):
        if len(at) < 3:
            continue
        u, arms = zip(*sorted(at.items()))
        v = np.array(u) - np.mean(u)
        squares, p2 = (v ** 2).sum(), v ** 2 - (v ** 2).mean() - (v ** 3).sum() / (v ** 2).sum() * v
        found.append(contrast(a, f"M6, tilt of -ln eta over l/L, {arms[0].codecs}", list(zip(-v / squares, arms))))
        found.append(contrast(a, f"M6, bow of -ln eta over l/L, {arms[0].codecs}",
                              list(zip(-2 * p2 / (p2 ** 2).sum(), arms))))
        for arm, cuts, _ in places:
            if (
                (arm.reference, arm.forward_codec, arm.backward_codec) == pair
                and len(cuts) > 1
                and all(c in at for c in cuts)
            ):
                found.append(contrast(a, f"M6, -ln eta of {arm.name} less the sum of its {len(cuts)} cuts alone",
                                      [(-1.0, arm), *((1.0, at[cut]) for cut in cuts)]))
    _collect_rates(a, places)


def _collect_rates(a, places):
    by: dict[tuple, tuple[dict, dict]] = {}  # arms and references by rate
    for arm, _, lr in places:
        reference = a.reference_of(arm)
        if not reference or lr <= 0 or any(change.key != "train.lr" for change in reference.changes):
            continue
        arms, references = by.setdefault((arm.stages, arm.forward_codec, arm.backward_codec), ({}, {}))
        if lr not in arms:  # else cuts elsewhere
            arms[lr] = arm
            references.setdefault(lr, reference)
    for key, (arms, references) in sorted(by.items()):
        if len(arms) < 2:
            continue
        ln = np.log(sorted(arms))
        weights = (ln - ln.mean()) / ((ln - ln.mean()) ** 2).sum()
        first = arms[min(arms)]
        what = f"{first.codecs}, S = {key[0]}"
        a.findings.contrasts.append(contrast(a, f"slope of ln eta over ln lr, {what}",
                                             list(zip(weights, (arms[lr] for lr in sorted(arms))))))

        # The best is chosen by the same losses: it flatters both sides by as much as seeds are noisy.
        def best(of):
            return min(sorted(of), key=lambda lr: _mean_loss(of[lr]))
        lr, other = best(arms), best(references)
        out = Contrast(f"ln eta at the best rates ({lr:g} against {other:g}), {what}", note=arms[lr].note)
        a.findings.contrasts.append(of_terms(a, out, [(1.0, references[other].losses(), arms[lr].losses())]))


def _mean_loss(arm):
    losses = list(arm.losses().values())
    return sum(losses) / len(losses) if losses else math.nan


# --- tests named beforehand


def _test_arm(name, arm):
    if not arm.off:
        return SecondaryTest(name, arm.name, note=arm.note)
    deltas = list(arm.off.delta_by_seed.values())
    return SecondaryTest(name, arm.name, paired_p(deltas), note="one seed" if len(deltas) < 2 else "")


def _test_secondary(a):
    """The other depths of the primary codec pair, each direction of it alone at the primary's S, and whether depth adds
    up; Holm over all of them. What cannot be tested stays in the family."""
    primary = a.arm(a.findings.primary)
    family = next((family for family in a.families if any(arm is primary for arm in family.arms)), None)
    if not family:
        return
    tests = [_test_arm(f"S = {arm.stages}", arm) for arm in family.arms
             if arm is not primary and arm.stages < HELD_OUT_STAGES]
    for name, forward, backward in (("forward only", primary.forward_codec, "none"),
                                    ("backward only", "none", primary.backward_codec)):
        one = _sibling(a, family, forward, backward) if family.directions == 2 else None
        arm = one.at_stages(primary.stages) if one else None
        if arm:
            tests.append(_test_arm(name, arm))
    if len(family.arms) > 1:
        p = family.depths.bend_p if family.depths else None
        note = "" if p is not None else "M4 has no fit" if family.depths else family.depths_note
        tests.append(SecondaryTest("M1 against a power of K", "", 1.0 if p is None else p, note=note))
    for test, adjusted in zip(tests, holm([test.p for test in tests])):
        test.adjusted = adjusted
    a.findings.secondary = tests


# --- times to a loss


def _reached_by(record, run, target):
    """Simulated seconds and tokens; None: never."""
    steps: dict[int, list] = {}  # losses, tokens, end
    for row in record.read(Step, run):
        if row.loss_nat is not None:
            step = steps.setdefault(row.step, [[], 0, 0.0])
            step[0].append(row.loss_nat)
            step[1] += row.tokens
    for row in record.read(Simulated, run):
        step = steps.setdefault(row.step, [[], 0, 0.0])
        step[2] = max(step[2], row.simulated_s)
    tokens, losses = 0, []
    for _, (of_groups, trained, ended_s) in sorted(steps.items()):
        if not of_groups:
            return None
        tokens += trained
        losses.append(sum(of_groups) / len(of_groups))
        last = losses[-STEPS_OF_A_LOSS:]
        if len(last) == STEPS_OF_A_LOSS and sum(last) / STEPS_OF_A_LOSS <= target:
            return ended_s, tokens
    return None


def _collect_times_to_loss(record, a, target):
    a.findings.target_loss_nat = target
    for arm in a.arms:
        if not (arm.role == "arm" or (arm.role == "reference" and arm.budget_fraction == 1)):
            continue
        runs = [o.run.id for o in arm.outcomes if SIMULATED_CLOCK in o.run.facts]
        reached = [found for run in runs if (found := _reached_by(record, run, target))]
        if not runs:
            continue
        out = TimeToLoss(arm.name, len(runs), len(reached))
        if len(reached) == len(runs):  # a mean over those that got there would be one over the lucky
            out.simulated_s, out.tokens = (mean_of(column) for column in zip(*reached))
        a.findings.times_to_loss.append(out)
