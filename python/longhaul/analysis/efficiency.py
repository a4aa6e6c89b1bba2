"""Token-equivalent efficiency from final held-out losses, paired by seed. D0 token budget, K crossings, eta token
efficiency, q = eta^(1/K). docs/estimates.md has the formulas. `losses` are dicts of final loss by seed."""

import math
from dataclasses import dataclass, field

import numpy as np

from longhaul.analysis import NotEstimated
from longhaul.analysis.curve import ReferenceCurve, curve_error
from longhaul.analysis.interval import cut_below, mapped, mean_of, variance, widened
from longhaul.tables import UPPER, Measured

ASSUMED_Q = 0.995  # what planning assumes per crossing
EQUIVALENCE_MARGIN = 0.002  # on ln eta, per crossing

# What an interval of q says against what planning assumes, or why there is none.
BELOW, ABOVE = "below 0.995", "above 0.995"  # both directions compressed
BELOW_ONE_WAY, ABOVE_ONE_WAY = "below 0.990 per boundary", "above 0.990 per boundary"  # one: what 0.995 twice gives
NOT_RESOLVED, NO_INTERVAL = "not resolved", "no interval"
DIVERGED, INCOMPLETE = "diverged", "incomplete"  # no mean over survivors
NO_CONCLUSION = "no conclusion"  # the campaign's controls failed: its instrument is in doubt
NO_Q = "no q"  # the arm changes more than stages and boundary codecs, or crosses nothing


@dataclass
class LnEtaRows:
    """ln eta of several arms over the same seeds. Both ends of a pair are read off the curve, at their mean losses
    above the D0 runs of the same seeds: an arm far from D0 is judged by the slope there. What one seed says is its
    jackknife pseudo-value, n theta - (n - 1) theta without the seed, with its share in the curve; any sum or fit of ln
    eta is made of these, and their spread over seeds is its error."""

    seeds: list[int]
    value: np.ndarray  # [pair]; the mean of its pseudo-values
    pseudo: np.ndarray  # [pair, seed]
    start: list[float]  # [pair] ln(D/D0) of the reference
    end: list[float]  # and of the arm


def ln_eta_by_seed(curve: ReferenceCurve, pairs) -> LnEtaRows:
    """`pairs` of losses, (reference, arm).

    Raises:
        NotEstimated: No seed of the curve has every run, or a reference lies below the smallest budget.
    """
    at = [j for j, seed in enumerate(curve.seeds)
          if all(seed in reference and seed in arm for reference, arm in pairs)]
    seeds, n = [curve.seeds[j] for j in at], len(at)
    if not pairs or not seeds:
        raise NotEstimated("no seed of the reference curve has every run of it")
    start, end, pseudos = [], [], []
    for pair in pairs:
        above = np.array([[losses[seed] - curve.d0_loss_by_seed[seed] for seed in seeds] for losses in pair])
        places = [curve.ln_budget(delta) for delta in above.mean(axis=1)]
        if places[0] < math.log(curve.smallest_budget):
            raise NotEstimated("its reference lies below the smallest budget")
        start.append(places[0])
        end.append(places[1])
        value = places[1] - places[0]
        pseudo = np.full(n, value)
        for j in range(n if n > 1 else 0):
            reference, arm = np.delete(above, j, axis=1).mean(axis=1)
            pseudo[j] -= (n - 1) * (curve.ln_budget(arm, at[j]) - curve.ln_budget(reference, at[j]) - value)
        # Their mean is off the value by the jackknife's estimate of bias, which has noise of its own.
        pseudos.append(pseudo + (value - pseudo.mean()))
    return LnEtaRows(seeds, np.array(end) - np.array(start), np.array(pseudos), start, end)


def terms_of(weights, rows: LnEtaRows) -> list[tuple]:
    """The places on the curve of a weighted sum, for curve_error."""
    return list(zip(weights, rows.start, rows.end))


def sum_of_ln_eta(curve: ReferenceCurve, rows: LnEtaRows, weights, level: float = 0.95) -> Measured:
    """sum_i weights[i] ln eta_i: t(n - 1) over the seeds, and in quadrature the curve's own error."""
    by_seed = np.asarray(weights) @ rows.pseudo
    return widened(mean_of(by_seed, level), curve_error(curve, terms_of(weights, rows)))


def estimate_contrast(curve: ReferenceCurve, terms, level: float = 0.95) -> tuple[Measured, int]:
    """A sum of weight times ln eta over `terms` (weight, reference, arm), and its seeds. What the terms share, the
    seed's luck and its part in the curve, enters once: seeds are carried through the whole sum.

    Raises:
        NotEstimated: No seed has every run, or a term lies below the smallest reference budget.
    """
    rows = ln_eta_by_seed(curve, [term[1:] for term in terms])
    if min(rows.end) < math.log(curve.smallest_budget):
        raise NotEstimated("a term lies below the smallest reference budget")
    return sum_of_ln_eta(curve, rows, [term[0] for term in terms], level), len(rows.seeds)


@dataclass
class Efficiency:
    """One arm against its reference. Where the smallest budget cuts them, ln eta, eta and q are bounds."""

    crossings: int  # K; 0: no q
    delta_by_seed: dict[int, float]
    delta_nat: Measured  # loss(arm) - loss(its reference at D0)
    ln_eta: Measured
    eta: Measured
    q: Measured | None = None
    equivalent: bool | None = None  # "no loss": the 90 % interval of ln eta lies inside +-0.002 K. None: no interval

    @property
    def seeds(self) -> int:
        return len(self.delta_by_seed)

    @property
    def sd_delta_nat(self) -> float:
        return math.sqrt(variance(list(self.delta_by_seed.values())))

    @property
    def is_bound(self) -> bool:
        return self.ln_eta.bound == UPPER


def estimate_arm(curve: ReferenceCurve, reference: dict, arm: dict, crossings: int, level: float = 0.95) -> Efficiency:
    """An arm against `reference`: the curve's own D0 runs, or the runs of an arm that has every change of this one but
    the codecs; each at its own place on the curve. Seeds without a partner are left out. crossings = 0: the arm has no
    q.

    Raises:
        NotEstimated: As ln_eta_by_seed.
    """
    rows = ln_eta_by_seed(curve, [(reference, arm)])
    deltas = {seed: arm[seed] - reference[seed] for seed in rows.seeds}
    floor = math.log(curve.smallest_budget) - rows.start[0]
    ln_eta = cut_below(floor, sum_of_ln_eta(curve, rows, [1.0], level))
    out = Efficiency(crossings, deltas, mean_of(list(deltas.values()), level), ln_eta, mapped(ln_eta, math.exp))
    if crossings:
        out.q = mapped(ln_eta, lambda value: math.exp(value / crossings))
        narrow, margin = sum_of_ln_eta(curve, rows, [1.0], 0.90).interval, EQUIVALENCE_MARGIN * crossings
        out.equivalent = (narrow.low > -margin and narrow.high < margin) if narrow else None
    return out


def delta_without_eta(reference: dict, arm: dict) -> Measured | None:
    """What is left where the reference has no place on the curve: the mean of arm less reference, nat, over the seeds
    that both have. None: none has both."""
    deltas = [arm[seed] - reference[seed] for seed in sorted(arm) if seed in reference]
    return mean_of(deltas) if deltas else None


@dataclass
class JointEstimate:
    """Arms of one codec pair at several depths together, -ln eta = u + a K (M1)."""

    a: Measured  # -ln q
    q: Measured
    seeds: int
    influence: np.ndarray  # what each seed, in order, moves a by; sums to 0
    on_curve: list[tuple] = field(default_factory=list)  # a as a sum of distances on the reference curve


def estimate_joint(curve: ReferenceCurve, reference: dict, arms, level: float = 0.95) -> JointEstimate:
    """Least squares over `arms`, (crossings, losses) each; the reference at K = 0 and u, the luck of its runs, which
    all arms share. Where only the interval's low end lies below the smallest budget, q is cut there.

    Raises:
        NotEstimated: No seed has all arms, all K are 0, or the fit puts the deepest arm below the smallest budget.
    """
    k = np.array([0.0, *(crossings for crossings, _ in arms)])
    try:
        rows = ln_eta_by_seed(curve, [(reference, losses) for _, losses in arms])
    except NotEstimated:
        rows = None
    if rows is None or not k.any():
        raise NotEstimated("no seed has every depth of this codec")
    weights = (-(k - k.mean()) / ((k - k.mean()) ** 2).sum())[1:]  # ln eta of the reference is 0
    a = sum_of_ln_eta(curve, rows, weights, level)
    deepest = k.max()
    floor = math.exp((math.log(curve.smallest_budget) - rows.start[0]) / deepest)
    if math.exp(-a.value) < floor:
        raise NotEstimated(f"the fit at K = {deepest:g} lies below the smallest reference budget")
    return JointEstimate(a, cut_below(floor, mapped(a, lambda value: math.exp(-value))), len(rows.seeds),
                         weights @ rows.pseudo - a.value, terms_of(weights, rows))


def assumed_q(directions: int) -> float:
    """What planning assumes for one of the crossings that an arm has: 0.995 with both directions compressed; with one,
    the crossing is all that a boundary has, for which 0.995^2 = 0.990 is assumed."""
    return ASSUMED_Q * ASSUMED_Q if directions == 1 else ASSUMED_Q


def against_assumed(q: Measured, directions: int) -> str:
    if not q.interval:
        return NO_INTERVAL
    if q.interval.high < assumed_q(directions):
        return BELOW_ONE_WAY if directions == 1 else BELOW
    if q.interval.low > assumed_q(directions):
        return ABOVE_ONE_WAY if directions == 1 else ABOVE
    return NOT_RESOLVED


