"""Loss against tokens of the uncompressed reference: a monotone cubic on ln D through the mean losses over seeds, which
assumes no form of the curve. docs/estimates.md has what it is worth."""

import bisect
import math
from dataclasses import dataclass, field

import numpy as np

from longhaul.analysis import NotEstimated
from longhaul.analysis.interval import around, holm, paired_p, variance
from longhaul.tables import Measured


@dataclass(frozen=True)
class MonotoneCubic:
    """A piecewise cubic through points that keeps their order: where they fall, so does it (PCHIP: Fritsch and
    Butland's weighted harmonic mean of the secants, three-point ends). Two points give a line. Outside of the points it
    goes on along its end's tangent or, where that is level, along the line from end to end."""

    x: list[float]  # rises
    y: list[float]
    tangent: list[float]

    @staticmethod
    def through(x, y) -> "MonotoneCubic":
        x, y = [float(one) for one in x], [float(one) for one in y]
        h, pieces = np.diff(x), len(x) - 1
        secant = np.diff(y) / h
        m = np.full(len(x), secant[0])
        if pieces > 1:
            for i in range(1, pieces):
                before, behind = 2 * h[i] + h[i - 1], h[i] + 2 * h[i - 1]
                turns = secant[i - 1] * secant[i] <= 0
                m[i] = 0 if turns else (before + behind) / (before / secant[i - 1] + behind / secant[i])
            m[0] = _end_tangent(h[0], h[1], secant[0], secant[1])
            m[-1] = _end_tangent(h[-1], h[-2], secant[-1], secant[-2])
        return MonotoneCubic(x, y, [float(one) for one in m])

    def _outer(self, behind):
        return self.tangent[-1 if behind else 0] or (self.y[-1] - self.y[0]) / (self.x[-1] - self.x[0])

    def _in(self, i, t):
        """In piece i, t from 0 to 1."""
        h, u = self.x[i + 1] - self.x[i], 1 - t
        return (u * u * (1 + 2 * t) * self.y[i] + t * t * (1 + 2 * u) * self.y[i + 1]
                + h * t * u * (u * self.tangent[i] - t * self.tangent[i + 1]))

    def at(self, x: float) -> float:
        for end, behind in ((0, False), (-1, True)):
            if x >= self.x[-1] if behind else x <= self.x[0]:
                return self.y[end] + self._outer(behind) * (x - self.x[end])
        i = bisect.bisect_right(self.x, x) - 1
        return self._in(i, (x - self.x[i]) / (self.x[i + 1] - self.x[i]))

    def tangent_at(self, x: float) -> float:
        if not self.x[0] <= x <= self.x[-1]:
            return self._outer(x > self.x[-1])
        i = min(bisect.bisect_right(self.x, x), len(self.x) - 1) - 1
        h = self.x[i + 1] - self.x[i]
        t = (x - self.x[i]) / h
        u = 1 - t
        return (6 * t * u * (self.y[i + 1] - self.y[i]) / h + u * (u - 2 * t) * self.tangent[i]
                + t * (t - 2 * u) * self.tangent[i + 1])

    def inverse(self, down_to: float) -> float:
        """The first x at which a falling curve has come down to `down_to`; a point's own value gives back the point."""
        if down_to >= self.y[0]:
            return self.x[0] + (down_to - self.y[0]) / self._outer(False)
        i = next((i for i, y in enumerate(self.y[1:]) if y <= down_to), None)
        if i is None:
            return self.x[-1] + (down_to - self.y[-1]) / self._outer(True)
        if self.y[i + 1] == down_to:
            return self.x[i + 1]
        above, below = 0.0, 1.0
        while (middle := (above + below) / 2) not in (above, below):
            above, below = (middle, below) if self._in(i, middle) > down_to else (above, middle)
        return self.x[i] + (self.x[i + 1] - self.x[i]) * middle


def _end_tangent(h0, h1, secant0, secant1):
    """Of the parabola through three points, kept from turning the curve round."""
    m = ((2 * h0 + h1) * secant0 - h0 * secant1) / (h0 + h1)
    if m * secant0 <= 0:
        return 0.0
    return 3 * secant0 if secant0 * secant1 <= 0 and abs(m) > 3 * abs(secant0) else m


@dataclass(frozen=True)
class PseudoControl:
    """A budget between the first and the last, found again from the loss of its runs and a curve without it."""

    budget: float
    error: Measured  # ln(found / budget), t over seeds


@dataclass
class ReferenceCurve:
    mean: MonotoneCubic  # ln(D/D0) -> nat
    seeds: list[int]  # that have every budget: the curve's
    without: list[MonotoneCubic]  # each seed, in the order of `seeds`; empty for one seed
    budgets: list[float]  # D/D0, rising
    slope_nat: float  # -dL/dlnD at D0
    slope_se_nat: float  # over seeds; 0 for one seed
    sigma_nat: float  # spread of the final loss between seeds, pooled over budgets
    d0_loss_by_seed: dict[int, float]  # the reference of all arms that name none
    pseudo_controls: list[PseudoControl] = field(default_factory=list)
    # Half the rms of the pseudo-controls' errors beyond what their seeds' noise explains: without its budget a gap is
    # twice as wide, and the error of an interpolation grows at least as the gap does. Of ln eta, midway between two
    # budgets; 0 at a budget.
    own_error: float = 0.0
    # That every pseudo-control is found but for noise: the smallest p of their t tests, by Holm. None: none, or one
    # seed.
    lack_of_fit_p: float | None = None

    @property
    def smallest_budget(self) -> float:
        return self.budgets[0]

    def loss_at(self, budget: float) -> float:
        return self.mean.at(math.log(budget))

    def ln_budget(self, delta_nat: float, without: int | None = None) -> float:
        """Which mean loss of the curve an arm has that is `delta_nat` above the D0 runs, as ln(D/D0); `without` the
        seed of this place in `seeds`, whose own D0 loss goes with it."""
        curve = self.mean if without is None else self.without[without]
        return curve.inverse(curve.at(0.0) + delta_nat)


def _moves(left_out):
    """theta without each seed -> what each seed moves theta by, on the scale of `around`."""
    left_out = np.asarray(left_out)
    return (len(left_out) - 1) * (left_out.mean() - left_out)


def fit_reference(runs) -> ReferenceCurve:
    """The curve through `runs`, tuples of seed, D/D0 and final held-out loss.

    Raises:
        NotEstimated: No seed has the D0 run and another budget, or the mean loss does not fall from one to the next.
    """
    by_seed: dict[int, dict[float, float]] = {}
    for seed, budget, loss in runs:
        by_seed.setdefault(seed, {})[budget] = loss
    budgets = sorted({budget for losses in by_seed.values() for budget in losses})
    seeds = sorted(seed for seed, losses in by_seed.items() if len(losses) == len(budgets))
    at_d0 = next((b for b, budget in enumerate(budgets) if abs(budget - 1) < 1e-9), None)
    if not seeds or at_d0 is None or len(budgets) < 2:
        raise NotEstimated("reference curve: no seed has finished the D0 run and every other budget")
    losses = np.array([[by_seed[seed][budget] for budget in budgets] for seed in seeds])
    budgets[at_d0] = 1.0
    x, mean = [math.log(budget) for budget in budgets], losses.mean(axis=0)
    for b in range(len(budgets) - 1):
        if not mean[b + 1] < mean[b]:
            raise NotEstimated(
                f"reference curve: the mean loss does not fall from {budgets[b]:.4g} D0 ({mean[b]:.4f} nat) to"
                f" {budgets[b + 1]:.4g} D0 ({mean[b + 1]:.4f} nat): more tokens did not help; the budgets are too close"
                " or too small, or the seeds too few"
            )
    without = [np.delete(losses, j, axis=0).mean(axis=0) for j in range(len(seeds))] if len(seeds) > 1 else []
    curves = [MonotoneCubic.through(x, one) for one in without]
    moves = _moves([-one.tangent_at(0.0) for one in curves]) if curves else []
    whole = MonotoneCubic.through(x, mean)
    curve = ReferenceCurve(
        mean=whole, seeds=seeds, without=curves, budgets=budgets, slope_nat=-whole.tangent_at(0.0),
        slope_se_nat=math.sqrt(variance(moves) / len(seeds)),
        sigma_nat=float(np.sqrt(np.mean([variance(column) for column in losses.T]))),
        d0_loss_by_seed=dict(zip(seeds, map(float, losses[:, at_d0]))))
    _find_pseudo_controls(x, [mean, *without], curve)
    return curve


def _find_pseudo_controls(x, means, curve):
    squares, p_values = 0.0, []
    for b in range(1, len(x) - 1):
        rest = [i for i in range(len(x)) if i != b]
        found = [MonotoneCubic.through([x[i] for i in rest], mean[rest]).inverse(mean[b]) - x[b] for mean in means]
        error, moves = float(found[0]), _moves(found[1:]) if len(found) > 1 else []
        curve.pseudo_controls.append(PseudoControl(curve.budgets[b], around(error, moves)))
        squares += error * error
        if len(moves) > 1:
            squares -= variance(moves) / len(moves)
            p_values.append(paired_p(moves + error))
    if curve.pseudo_controls:
        curve.own_error = math.sqrt(max(0.0, squares / len(curve.pseudo_controls))) / 2
    if p_values:
        curve.lack_of_fit_p = min(holm(p_values))


def curve_error(curve: ReferenceCurve, terms) -> float:
    """The standard error (ln eta) that the curve itself adds to the sum over `terms`, tuples (weight, from, to), of
    weight (ln budget to - ln budget from). Between two neighbouring budgets its error is one number, from gap to gap
    they are independent; behind the last budget it grows with the distance."""
    x = curve.mean.x
    by_gap = [0.0] * (len(x) + 1)
    for weight, start, end in terms:
        for sign, at in ((1, end), (-1, start)):
            gap = bisect.bisect_left(x, at)
            if at <= x[0]:
                continue  # nothing is said below
            if gap == len(x):
                by_gap[gap] += sign * weight * (at - x[-1]) / (x[-1] - x[-2])
            else:
                share = (at - x[gap - 1]) / (x[gap] - x[gap - 1])
                by_gap[gap] += sign * weight * 4 * share * (1 - share)
    return curve.own_error * math.sqrt(sum(one * one for one in by_gap))


def curve_error_text(c: ReferenceCurve) -> str:
    """What the curve's own error is and whence it is known, as a sentence."""
    if not c.pseudo_controls:
        return "No budget lies between two others: nothing tells how far the curve is off."
    worst = max(c.pseudo_controls, key=lambda one: abs(one.error.value))
    known = "" if c.lack_of_fit_p is None else f" (p {c.lack_of_fit_p:.3f} for no such error, Holm)"
    return (
        f"Left out and found again, a budget of {worst.budget:.3f} D0 comes out as"
        f" {worst.budget * math.exp(worst.error.value):.3f} D0 at the worst; beyond the seeds' noise the curve is taken"
        f" to be off by {100 * c.own_error:.2f} % of eta midway between two{known}."
    )
