"""The estimators once more, by SciPy: the oracle of test_estimators.py.

Written from the formulas of docs/estimates.md alone, by other means than the program where there
are any: SciPy's PCHIP, roots found by bracketing, least squares with seed effects as columns. The
input has the final losses of one campaign: {"reference": [[seed, budget, loss], ...], "arms":
[{"crossings": K, "losses": {seed: loss}}, ...]}.
"""

import math

import numpy as np
from scipy import interpolate, optimize, stats


class Campaign:
    def __init__(self, data):
        self.seeds = sorted({row[0] for row in data["reference"]})
        self.budgets = sorted({row[1] for row in data["reference"]})
        loss = {(row[0], row[1]): row[2] for row in data["reference"]}
        self.losses = np.array([[loss[s, b] for b in self.budgets] for s in self.seeds])
        self.x = np.log(self.budgets)
        self.d0 = {s: loss[s, 1.0] for s in self.seeds}

    def curve(self, without=None):
        rows = [i for i, s in enumerate(self.seeds) if s != without]
        return interpolate.PchipInterpolator(self.x, self.losses[rows].mean(axis=0))

    def read_off(self, loss, curve):
        """ln(D/D0) of a loss; along the end's tangent outside."""
        x = self.x
        for end, beyond in ((x[0], loss > curve(x[0])), (x[-1], loss < curve(x[-1]))):
            if beyond:
                return end + (loss - curve(end)) / curve(end, 1)
        return optimize.brentq(lambda at: curve(at) - loss, x[0], x[-1], xtol=1e-15, rtol=1e-15)

    def seeds_of(self, arms):
        return [s for s in self.seeds if all(str(s) in arm["losses"] for arm in arms)]

    def ln_eta(self, arm, seeds, without=None):
        curve = self.curve(without)
        used = [s for s in seeds if s != without]
        delta = np.mean([arm["losses"][str(s)] - self.d0[s] for s in used])
        return self.read_off(curve(0.0) + delta, curve)

    def pseudo(self, arm, seeds):
        """The value, and the jackknife's pseudo-values about it."""
        n, value = len(seeds), self.ln_eta(arm, seeds)
        p = np.array([n * value - (n - 1) * self.ln_eta(arm, seeds, s) for s in seeds])
        return value, p - p.mean() + value

    def misses(self, without=None):
        """ln(found / true) of every budget between the ends, by the curve without it."""
        rows = [i for i, s in enumerate(self.seeds) if s != without]
        mean = self.losses[rows].mean(axis=0)
        out = []
        for b in range(1, len(self.x) - 1):
            rest = np.delete(np.arange(len(self.x)), b)
            curve = interpolate.PchipInterpolator(self.x[rest], mean[rest])
            out.append(self.read_off(mean[b], curve) - self.x[b])
        return np.array(out)

    def own_error(self):
        n = len(self.seeds)
        left_out = np.array([self.misses(s) for s in self.seeds])
        squares = (n - 1) / n * ((left_out - left_out.mean(axis=0)) ** 2).sum(axis=0)
        return math.sqrt(max(0.0, np.mean(self.misses() ** 2 - squares))) / 2

    def on_curve(self, weights, places):
        """The curve's own standard error of a sum of weights times ln eta."""
        by_gap = {}
        for weight, at in zip(weights, places):
            gap = int(np.searchsorted(self.x, at))
            if gap == 0:
                continue
            if gap == len(self.x):
                by_gap[gap] = by_gap.get(gap, 0) + weight * (at - self.x[-1]) / (self.x[-1] - self.x[-2])
                continue
            u = (at - self.x[gap - 1]) / (self.x[gap] - self.x[gap - 1])
            by_gap[gap] = by_gap.get(gap, 0) + weight * 4 * u * (1 - u)
        return self.own_error() * math.sqrt(sum(v * v for v in by_gap.values()))


def around(value, by_seed, more, level=0.95):
    half = stats.t.ppf(0.5 + level / 2, len(by_seed) - 1) * stats.sem(by_seed)
    half = math.hypot(half, stats.norm.ppf(0.5 + level / 2) * more)
    return [value, value - half, value + half]


def weighted(campaign, weights, arms, level=0.95):
    seeds = campaign.seeds_of(arms)
    found = [campaign.pseudo(arm, seeds) for arm in arms]
    value = sum(w * v for w, (v, _) in zip(weights, found))
    by_seed = sum(w * p for w, (_, p) in zip(weights, found))
    return around(value, by_seed, campaign.on_curve(weights, [v for v, _ in found]), level)


def joint(campaign, arms):
    """a of -ln eta = u + a K with the reference at K = 0."""
    ks = np.array([0.0] + [arm["crossings"] for arm in arms])
    z = (ks - ks.mean()) / ((ks - ks.mean()) ** 2).sum()
    return weighted(campaign, list(-z[1:]), arms)


def power_of_depth(campaign, arms):
    """M4, -ln eta = a K^gamma, by SciPy's least squares with a column for each seed."""
    seeds = campaign.seeds_of(arms)
    ks = np.array([arm["crossings"] for arm in arms], float)
    y = np.array([np.zeros(len(seeds))] + [-campaign.pseudo(arm, seeds)[1] for arm in arms]).T
    m = lambda p: np.r_[0.0, p[0] * ks ** p[1]]  # noqa: E731
    residuals = lambda p: (y - p[2:, None] - m(p)[None, :]).ravel()  # noqa: E731
    fit = optimize.least_squares(residuals, np.r_[0.01, 1.0, y[:, 0]], x_scale="jac", xtol=1e-15,
                                 ftol=1e-15, gtol=1e-15)
    return [fit.x[0], fit.x[1]]


def fieller(y, x, level):
    """All r for which a t test of mean(y - r x) = 0 does not reject."""
    r = np.mean(y) / np.mean(x)
    quantile = stats.t.ppf(0.5 + level / 2, len(y) - 1)
    rejects = lambda at: abs(np.mean(y - at * x)) / stats.sem(y - at * x) - quantile  # noqa: E731
    return [r, optimize.brentq(rejects, r - 10, r), optimize.brentq(rejects, r, r + 10)]
