"""The estimators once more, by SciPy: estimators_scipy.py INPUT.json > OUTPUT.json

Written from the formulas alone, by other means than the program where there are any: least squares
with seed effects as columns, roots found by bracketing, SciPy's own bootstrap. The input has the
final losses of one campaign: {"reference": [[seed, budget, loss], ...], "arms": [{"crossings": K,
"losses": {seed: loss}}, ...], "skewed": [...]}.
"""

import json
import math
import sys

import numpy as np
from scipy import optimize, stats

BETA = 0.35


def curve(reference, beta):
    """Slope by seed, s = beta b, each seed's own least squares of L = E + b x^-beta."""
    slopes = {}
    for seed in sorted({row[0] for row in reference}):
        rows = [row for row in reference if row[0] == seed]
        fit = stats.linregress([row[1] ** -beta for row in rows], [row[2] for row in rows])
        slopes[seed] = beta * fit.slope
    return slopes


def pooled_sigma(reference):
    squares, freedom = 0.0, 0
    for budget in {row[1] for row in reference}:
        losses = [row[2] for row in reference if row[1] == budget]
        squares += np.var(losses, ddof=1) * (len(losses) - 1)
        freedom += len(losses) - 1
    return math.sqrt(squares / freedom)


def ratio(y, x, level):
    """mean(y) / mean(x), delta method by the residuals y - r x, t(n - 1)."""
    r = np.mean(y) / np.mean(x)
    residuals = y - r * x
    half = stats.t.ppf(0.5 + level / 2, len(y) - 1) * stats.sem(residuals) / abs(np.mean(x))
    return [r, r - half, r + half]


def fieller(y, x, level):
    """All r for which a t test of mean(y - r x) = 0 does not reject."""
    r = np.mean(y) / np.mean(x)
    quantile = stats.t.ppf(0.5 + level / 2, len(y) - 1)
    rejects = lambda at: abs(np.mean(y - at * x)) / stats.sem(y - at * x) - quantile  # noqa: E731
    return [r, optimize.brentq(rejects, r - 10, r), optimize.brentq(rejects, r, r + 10)]


def ln_eta(r, exact):
    return -math.log(1 + BETA * r) / BETA if exact else -r


def joint(arms, reference_loss, slopes):
    """a of loss = u_seed + s m(a K) and its interval, over the seeds that have every arm."""
    seeds = [s for s in sorted(slopes) if all(str(s) in arm["losses"] for arm in arms)]
    ks = np.array([0.0] + [arm["crossings"] for arm in arms])
    losses = np.array([[reference_loss[s]] + [arm["losses"][str(s)] for arm in arms] for s in seeds])
    s_j = np.array([slopes[s] for s in seeds])
    s = s_j.mean()
    mean = losses.mean(axis=0)
    exact = any(abs(mean - mean[0]) / s >= 0.1)
    m = lambda a: (np.exp(BETA * a * ks) - 1) / BETA if exact else a * ks  # noqa: E731
    # Seed effects are columns of their own: one unknown a seed beside a.
    residuals = lambda p: (losses - p[1:, None] - s * m(p[0])[None, :]).ravel()  # noqa: E731
    fit = optimize.least_squares(residuals, np.r_[0.0, losses[:, 0]], xtol=1e-15, ftol=1e-15,
                                 gtol=1e-15)
    a = fit.x[0]
    slope = ks * np.exp(BETA * a * ks) if exact else ks
    z = slope - slope.mean()
    # Influence of each seed on a, through its losses and through its slope.
    influence = ((losses - mean) @ z - (s_j - s) * (z @ m(a))) / (s * (z @ z))
    half = stats.t.ppf(0.975, len(seeds) - 1) * stats.sem(influence)
    return [a, a - half, a + half]


def contrast(weights, arms, reference_loss, slopes):
    """Sum of weight * ln eta, each of its own mean loss; influence of a seed by leaving the mean."""
    seeds = [s for s in sorted(slopes) if all(str(s) in arm["losses"] for arm in arms)]
    s_j = np.array([slopes[s] for s in seeds])
    d = np.array([[arm["losses"][str(s)] - reference_loss[s] for s in seeds] for arm in arms])
    exact = any(abs(d.mean(axis=1) / s_j.mean()) >= 0.1)

    def value(share):  # of each seed
        r = d @ share / (s_j @ share)
        return sum(w * ln_eta(x, exact) for w, x in zip(weights, r))

    n = len(seeds)
    even = np.full(n, 1 / n)
    at = value(even)
    h = 1e-5
    influence = [(value(even * (1 - h) + h * np.eye(n)[j]) - value(even * (1 + h) - h * np.eye(n)[j]))
                 / (2 * h) for j in range(n)]
    half = stats.t.ppf(0.975, n - 1) * stats.sem(influence)
    return [at, at - half, at + half]


def power_of_depth(arms, reference_loss, slopes):
    """M4, -ln eta = a K^gamma, by SciPy's least squares with a column for each seed."""
    seeds = [s for s in sorted(slopes) if all(str(s) in arm["losses"] for arm in arms)]
    ks = np.array([arm["crossings"] for arm in arms], float)
    losses = np.array([[reference_loss[s]] + [arm["losses"][str(s)] for arm in arms] for s in seeds])
    s = np.mean([slopes[x] for x in seeds])
    mean = losses.mean(axis=0)
    exact = any(abs(mean - mean[0]) / s >= 0.1)

    def m(p):
        x = np.r_[0.0, p[0] * ks ** p[1]]
        return np.expm1(BETA * x) / BETA if exact else x

    residuals = lambda p: (losses - p[2:, None] - s * m(p)[None, :]).ravel()  # noqa: E731
    fit = optimize.least_squares(residuals, np.r_[0.01, 1.0, losses[:, 0]], x_scale="jac",
                                 xtol=1e-15, ftol=1e-15, gtol=1e-15)
    points, unknowns = losses.size, len(fit.x) + 1
    aicc = (points * math.log(2 * fit.cost / points) + 2 * unknowns
            + 2 * unknowns * (unknowns + 1) / (points - unknowns - 1))
    return [fit.x[0], fit.x[1], aicc]


def main(path):
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    slopes = curve(data["reference"], BETA)
    d0 = {row[0]: row[2] for row in data["reference"] if row[1] == 1.0}
    out = {
        "slope": np.mean(list(slopes.values())),
        "slope_se": stats.sem(list(slopes.values())),
        "slope_at_0.2": np.mean(list(curve(data["reference"], 0.2).values())),
        "slope_at_0.5": np.mean(list(curve(data["reference"], 0.5).values())),
        "sigma": pooled_sigma(data["reference"]),
        "arms": [],
    }
    for arm in data["arms"]:
        seeds = [s for s in sorted(slopes) if str(s) in arm["losses"]]
        d = np.array([arm["losses"][str(s)] - d0[s] for s in seeds])
        s = np.array([slopes[s] for s in seeds])
        # The curve's own slope, of all seeds, in place of the mean over the arm's.
        scale = s.mean() / out["slope"]
        r = scale * np.array(ratio(d, s, 0.95))
        exact = abs(r[0]) >= 0.1
        half = stats.t.ppf(0.975, len(d) - 1) * stats.sem(d)
        narrow = scale * np.array(ratio(d, s, 0.90))
        margin = 0.002 * arm["crossings"]
        out["arms"].append({
            "delta": [d.mean(), d.mean() - half, d.mean() + half],
            "ln_eta": [ln_eta(r[0], exact), ln_eta(r[2], exact), ln_eta(r[1], exact)],
            "equivalent": bool(narrow[1] > -margin and narrow[2] < margin),
        })
    out["contrast"] = contrast([1, -1, 0.5], data["arms"], d0, slopes)
    out["power_of_depth"] = power_of_depth(data["arms"], d0, slopes)
    out["joint"] = joint(data["arms"], d0, slopes)
    loud = data["loud"]
    out["fieller"] = fieller(np.array(loud["y"]), np.array(loud["x"]), 0.95)
    bootstrap = stats.bootstrap((np.array(data["skewed"]),), np.mean, n_resamples=60_000,
                                batch=2_000, method="BCa", random_state=np.random.default_rng(1))
    out["bca"] = list(bootstrap.confidence_interval)
    out["t_quantiles"] = [stats.t.ppf(p, df) for p, df in data["t_quantiles"]]
    out["power"] = [power(n, effect) for n, effect in data["power"]]
    print(json.dumps(out))


def power(n, effect):
    """Of a two-sided 5 % paired t test."""
    critical = stats.t.ppf(0.975, n - 1)
    shift = effect * math.sqrt(n)
    return stats.nct.sf(critical, n - 1, shift) + stats.nct.cdf(-critical, n - 1, shift)


main(sys.argv[1])
