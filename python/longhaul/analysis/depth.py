"""How the loss of an arm grows with its K crossings, -ln eta:

    M1  a K           the planner's; q = exp(-a)
    M4  a K^gamma     gamma < 1 saturates, > 1 compounds

Both are fitted jointly over the same arms and seeds, -ln eta = u_seed + x(arm), the reference at K = 0.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from longhaul.analysis import NotEstimated
from longhaul.analysis.curve import ReferenceCurve, curve_error
from longhaul.analysis.efficiency import ln_eta_by_seed
from longhaul.analysis.interval import around, paired_p, variance, widened
from longhaul.analysis.regression import fit_over_seeds
from longhaul.tables import Measured

# Arms from here on are held out of every fit while there are shallower ones: they test it.
HELD_OUT_STAGES = 16
MODELS = {"M1": ("a",), "M4": ("a", "gamma")}


def minus_ln_eta(theta, k):
    """At K > 0."""
    return theta[0] * k ** (theta[1] if len(theta) > 1 else 1.0)


@dataclass
class HeldOut:
    """An arm predicted by a fit without any arm of its depth."""

    stages: int
    forward: int  # crossings
    backward: int
    predicted: float  # -ln eta
    measured: float
    z: float  # (predicted - measured) / se; 0 / 0 is 0


@dataclass
class DepthFit:
    model: str
    note: str = ""  # why it could not be fitted
    theta: list[float] = field(default_factory=list)  # empty: not fitted
    parameters: dict[str, Measured] = field(default_factory=dict)
    influence: np.ndarray | None = None  # [parameter, seed]
    held_out: list[HeldOut] = field(default_factory=list)

    @property
    def misses(self) -> bool:
        return any(abs(h.z) > 2 for h in self.held_out)

    def minus_ln_eta(self, k: float) -> float:
        return float(minus_ln_eta(self.theta, k)) if k else 0.0


@dataclass
class DepthComparison:
    seeds: int
    m1: DepthFit
    m4: DepthFit

    @property
    def fits(self) -> tuple[DepthFit, DepthFit]:
        return self.m1, self.m4

    @property
    def gamma(self) -> Measured | None:
        found = self.m4.parameters.get("gamma")
        return found if found and found.interval else None

    @property
    def bend_p(self) -> float | None:
        """Two-sided, of gamma = 1: does anything bend? None: M4 could not be fitted, or one seed."""
        if not self.m4.theta or self.seeds < 2:
            return None
        return paired_p(self.m4.theta[1] - 1 + self.m4.influence[1])

    @property
    def chosen(self) -> str:
        """M1, unless gamma is shown not to be 1 and M4 misses no held-out depth."""
        p = self.bend_p
        return "M4" if p is not None and p <= 0.05 and not self.m4.misses else "M1"

    @property
    def words(self) -> str:
        p = self.bend_p
        if p is None:
            return "M1 stands: too few seeds or depths to tell whether it bends"
        if self.chosen == "M4":
            return f"M4 is preferred to M1: gamma is not 1 (p {p:.2g}), no held-out |z| above 2"
        return "M1 misses a held-out depth and M4 is not preferred to it" if self.m1.misses else "M1 stands"

    def per_boundary(self, directions: int) -> Measured | None:
        """a of M4 in the planner's own form, -ln eta = a (S-1)^gamma with K = directions (S-1)."""
        if not self.gamma:
            return None
        a, gamma = self.m4.theta
        scale = directions ** gamma
        moved = scale * (self.m4.influence[0] + a * math.log(directions) * self.m4.influence[1])
        return around(a * scale, moved)


@dataclass(frozen=True)
class DepthArm:
    stages: int
    forward: int  # crossings
    backward: int
    losses: dict[int, float]

    @property
    def k(self) -> int:
        return self.forward + self.backward


@dataclass
class _Data:
    """-ln eta of the seeds that have every one of `arms`; the reference, whose is 0, is point 0."""

    curve: ReferenceCurve
    arms: list[DepthArm]
    places: list[tuple]  # from, to on the curve; of points
    y: np.ndarray  # [seed, point]

    def subset(self, kept):
        """The points `kept`, the reference first."""
        return _Data(self.curve, [self.arms[i - 1] for i in kept[1:]], [self.places[i] for i in kept], self.y[:, kept])

    def on_curve(self, weights):
        """Standard error that the curve itself adds to a sum over points of weight times -ln eta."""
        return curve_error(self.curve, [(-w, start, end) for w, (start, end) in zip(weights, self.places)])


def _collect(curve, reference, arms):
    try:
        rows = ln_eta_by_seed(curve, [(reference, arm.losses) for arm in arms])
    except NotEstimated:
        return None
    return _Data(curve, arms, [(0.0, 0.0), *zip(rows.start, rows.end)],
                 np.vstack([np.zeros(len(rows.seeds)), -rows.pseudo]).T)


def _fit(model, data):
    k = np.array([arm.k for arm in data.arms], float)
    if not len(k) or (model == "M4" and len(set(k)) < 2):  # a power needs two depths
        raise NotEstimated("too few depths")
    deepest = int(np.argmax(k))
    a = data.y[:, deepest + 1].mean() / k[deepest]
    starts = [[min(a, 0.5 / k[deepest])]] if model == "M1" else [
        [a * k[deepest] ** (1 - gamma), gamma] for gamma in (1.0, 0.5, 1.5)]
    fits, why = [], None
    for start in starts:
        try:
            fits.append(fit_over_seeds(data.y, lambda theta: np.r_[0.0, minus_ln_eta(theta, k)], start))
        except NotEstimated as failed:
            why = failed
    if not fits:
        raise why
    return min(fits, key=lambda fit: fit.residual_squares)


def _hold_out(model, data, without, stages):
    """Every arm of `stages`, predicted by a fit of the arms whose depth is not in `without`."""
    kept = [0] + [i for i, arm in enumerate(data.arms, 1) if arm.stages not in without]
    try:
        fit = _fit(model, data.subset(kept))
    except NotEstimated:
        return []
    found = []
    for i, arm in enumerate(data.arms, 1):
        if arm.stages != stages:
            continue
        measured, predicted = float(data.y[:, i].mean()), float(minus_ln_eta(fit.theta, arm.k))
        if not math.isfinite(predicted):
            continue
        slopes = [1.0 * arm.k] if model == "M1" else [predicted / fit.theta[0], predicted * math.log(arm.k)]
        # What each seed moves the difference by: through the parameters and through its own losses.
        moved = measured - data.y[:, i] + data.y[:, 0] + slopes @ fit.influence
        weights = np.zeros(len(data.arms) + 1)
        weights[i] = -1
        weights[kept] += slopes @ fit.by_point
        se, off = math.hypot(math.sqrt(variance(moved) / len(moved)), data.on_curve(weights)), predicted - measured
        z = off / se if se >= 1e-9 else 0.0 if abs(off) < 1e-9 else math.copysign(math.inf, off)
        found.append(HeldOut(arm.stages, arm.forward, arm.backward, predicted, measured, z))
    return found


def compare_depths(curve: ReferenceCurve, reference: dict, arms: list[DepthArm]) -> DepthComparison:
    """Raises:
        NotEstimated: Fewer than two depths, or no seed with every arm.
    """
    shallow = any(arm.stages < HELD_OUT_STAGES for arm in arms)
    fitted = [arm for arm in arms if not (shallow and arm.stages >= HELD_OUT_STAGES)]
    far = {arm.stages for arm in arms} - {arm.stages for arm in fitted}
    depths = sorted({arm.stages for arm in fitted})
    if len(depths) < 2:
        raise NotEstimated("fewer than two depths: there is no shape to compare")
    data = _collect(curve, reference, fitted)
    if data is None:
        raise NotEstimated("no seed has every depth of this codec")
    # Beyond the fit only the seeds that went there can be held against it.
    beyond = _collect(curve, reference, arms) if far else None
    fits = {}
    for model, names in MODELS.items():
        out = fits[model] = DepthFit(model)
        try:
            fit = _fit(model, data)
        except NotEstimated as why:
            out.note = str(why)
            continue
        out.theta, out.influence = [float(one) for one in fit.theta], fit.influence
        out.parameters = {
            name: widened(fit.parameter(p), data.on_curve(fit.by_point[p])) for p, name in enumerate(names)
        }
        for one, without, stages in [
            *((data, {s}, s) for s in depths[1:]),
            *((beyond, far | {s}, s) for s in sorted(far)),
        ]:
            if one is not None and len(one.y) > 1:  # one seed has no standard error
                out.held_out += _hold_out(model, one, without, stages)
    return DepthComparison(len(data.y), fits["M1"], fits["M4"])
