"""Numbers with intervals. Measured and Interval are of longhaul.tables; SciPy is imported when a quantile is needed."""

import math

import numpy as np

from longhaul.refusal import need
from longhaul.tables import LOW_END, UPPER, Interval, Measured


def _special():  # a third of scipy.stats' time to import
    return need("scipy.special", "an interval", "scipy")


def t_quantile(p: float, df: float) -> float:
    """P(T <= t) = p of Student's t with df >= 1."""
    return float(_special().stdtrit(df, p))


def two_sided_p(t: float, df: float) -> float:
    return float(2 * _special().stdtr(df, -abs(t)))


def normal_quantile(p: float) -> float:
    return float(_special().ndtri(p))


def _power(n, shift):
    """Of a two-sided 5 % t test over n pairs, their mean being shift standard errors off 0."""
    nct, critical = _special().nctdtr, t_quantile(0.975, n - 1)
    below = nct(n - 1, shift, -critical)
    return 1 - nct(n - 1, shift, critical) + (below if below > 0 else 0)  # nan where it is too small for a number


def detectable_effect(n: int) -> float:
    """Smallest true mean difference, in standard deviations of the paired differences, that a two-sided 5 % t test
    over n >= 2 pairs finds with 80 % power: exact, by the noncentral t."""
    low, high = 0.0, t_quantile(0.975, n - 1) + 4
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _power(n, middle) < 0.8 else (low, middle)
    return high / math.sqrt(n)


def pairs_needed(effect: float) -> int:
    """Fewest pairs (2 to 1000) whose detectable_effect is at most `effect`; 1001 if none is. It falls as pairs grow."""
    if not detectable_effect(1000) <= effect:
        return 1001
    low, high = 2, 1000
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if detectable_effect(middle) <= effect else (middle + 1, high)
    return low


def variance(x) -> float:
    """With n - 1; 0 for fewer than two values."""
    return float(np.var(x, ddof=1)) if len(x) > 1 else 0.0


def around(value: float, by_seed, level: float = 0.95) -> Measured:
    """`value` with t(n - 1) times the standard error of the mean of what each seed says; no interval for one seed."""
    n = len(by_seed)
    if n < 2:
        return Measured(value)
    half = t_quantile(0.5 + level / 2, n - 1) * math.sqrt(variance(by_seed) / n)
    return Measured(value, Interval(value - half, value + half, level, "t"))


def mean_of(x, level: float = 0.95) -> Measured:
    """Mean over seeds with its t interval."""
    return around(float(np.mean(x)), x, level)


def ratio_of_means(y, x, level: float = 0.95) -> Measured:
    """mean(y) / mean(x) over seeds, y and x of one seed being paired. The delta method with t(n - 1); Fieller where
    mean(x) is less than 5 standard errors from 0, no interval where that one is unbounded, or for one seed."""
    n, my, mx = len(x), float(np.mean(y)), float(np.mean(x))
    ratio = my / mx
    if n < 2:
        return Measured(ratio)
    (vy, cov), (_, vx) = np.cov(y, x) / n
    t = t_quantile(0.5 + level / 2, n - 1)
    if abs(mx) >= 5 * math.sqrt(vx):
        half = t * math.sqrt(max(0.0, vy - 2 * ratio * cov + ratio * ratio * vx)) / abs(mx)
        return Measured(ratio, Interval(ratio - half, ratio + half, level, "t"))
    a, b, c = mx * mx - t * t * vx, my * mx - t * t * cov, my * my - t * t * vy
    root = b * b - a * c
    if a <= 0 or root < 0:
        return Measured(ratio)
    return Measured(ratio, Interval((b - math.sqrt(root)) / a, (b + math.sqrt(root)) / a, level, "fieller"))


def holm(p_values) -> list[float]:
    """Holm's step-down over a family of tests: adjusted p values in the order given."""
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = largest
    return adjusted


def paired_p(x) -> float:
    """Two-sided p of a paired t test that the mean of x is 0. 1 for fewer than two values, and where all are 0; 0
    where all are the same other number."""
    if len(x) < 2:
        return 1.0
    mean, se = float(np.mean(x)), math.sqrt(variance(x) / len(x))
    return (1.0 if mean == 0 else 0.0) if se == 0 else two_sided_p(mean / se, len(x) - 1)


def _order_statistics(x):
    """Between two order statistics; the largest k with 1 - 2 P(Binomial(n, 1/2) < k) >= 95 %; None below 6 values."""
    n, k = len(x), 0
    if n > 1000:
        k = int(0.5 * n - 0.98 * math.sqrt(n))
    else:
        while 2 * sum(math.comb(n, i) for i in range(k + 1)) / 2**n <= 1 - 0.95:
            k += 1
    ordered = sorted(x)
    return Interval(ordered[k - 1], ordered[n - k], 0.95, "order statistics") if k else None


class _MersenneTwister:
    """std::mt19937_64: the bootstrap draws what it always drew, so that a median's interval stays."""

    def __init__(self, seed):
        state = [seed]
        for i in range(1, 312):
            state.append((6364136223846793005 * (state[-1] ^ (state[-1] >> 62)) + i) & (2**64 - 1))
        self.state, self.at = state, 312

    def __call__(self):
        if self.at == 312:
            s = self.state
            for i in range(312):
                x = (s[i] & 0xFFFFFFFF80000000) | (s[(i + 1) % 312] & 0x7FFFFFFF)
                s[i] = s[(i + 156) % 312] ^ (x >> 1) ^ (0xB5026F5AA96619E9 if x & 1 else 0)
            self.at = 0
        x = self.state[self.at]
        self.at += 1
        x ^= (x >> 29) & 0x5555555555555555
        x ^= (x << 17) & 0x71D67FFFEDA60000
        x ^= (x << 37) & 0xFFF7EEE000000000
        return x ^ (x >> 43)


def _block_bootstrap(x, block=10, draws=2000):
    random, n = _MersenneTwister(20260301), len(x)
    values, offsets = np.asarray(x, float), np.arange(block)
    many = -(-n // block)
    starts = np.array([[random() % (n - block + 1) for _ in range(many)] for _ in range(draws)])
    samples = values[(starts[:, :, None] + offsets).reshape(draws, -1)[:, :n]]
    medians = np.sort(np.median(samples, axis=1))
    return Interval(float(medians[draws // 40]), float(medians[draws - 1 - draws // 40]), 0.95, "block bootstrap")


def median_of_steps(in_order) -> Measured:
    """The median of what consecutive steps took with its 95 % interval: from 30 values on by block bootstrap (blocks
    of 10, as neighbouring steps are alike), below that between two order statistics, none below 6 values."""
    if not len(in_order):
        return Measured(0.0)
    find = _block_bootstrap if len(in_order) >= 30 else _order_statistics
    return Measured(float(np.median(in_order)), find(in_order))


def median_of_independent(x) -> Measured:
    """The median with its interval between two order statistics; none below 6 values."""
    return Measured(float(np.median(x)), _order_statistics(x)) if len(x) else Measured(0.0)


def mapped(x: Measured, function) -> Measured:
    """function(x), with the ends of its interval in order; `function` rises or falls."""
    if not x.interval:
        return Measured(function(x.value), None, x.bound)
    low, high = sorted((function(x.interval.low), function(x.interval.high)))
    return Measured(function(x.value), Interval(low, high, x.interval.level, x.interval.method), x.bound)


def widened(x: Measured, standard_error: float) -> Measured:
    """`x`, an interval over seeds, with a further normal standard error in quadrature."""
    i = x.interval
    if not i or standard_error == 0:
        return x
    half = math.hypot((i.high - i.low) / 2, normal_quantile(0.5 + i.level / 2) * standard_error)
    return Measured(x.value, Interval(x.value - half, x.value + half, i.level, i.method), x.bound)


def cut_below(floor: float, x: Measured) -> Measured:
    """x where nothing below `floor` may be said: the value becomes an upper bound, or the interval's low end is cut."""
    i = x.interval
    if x.value < floor:
        if not i:
            return Measured(floor, None, UPPER)
        high = max(i.high, floor)
        return Measured(high, Interval(-math.inf, high, i.level, i.method), UPPER)
    if i and i.low < floor:
        return Measured(x.value, Interval(floor, i.high, i.level, i.method), LOW_END)
    return x
