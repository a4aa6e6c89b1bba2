"""Estimators over the losses of rows (blocks of text; nat per token, one a row): pure functions.

Losses of several arms are paired: row i is the same tokens in each. Intervals are t over rows, 95 % unless said
otherwise.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from longhaul.analysis.interval import mean_of, normal_quantile
from longhaul.pricing.plan import Arm, Crossing, Request, arm_of, priced_blocks, ranges_around
from longhaul.tables import Interval, Measured

LEVEL = 0.95


@dataclass
class Count:
    """What became of the tensors at a boundary."""

    bits: float = 0.0  # of the frames, headers included
    elements: float = 0.0
    squared_error: float = 0.0
    squared_norm: float = 0.0
    token_error: float = 0.0  # sum over tokens of |error|^2 / |x|^2
    tokens: int = 0

    def add(self, other: "Count") -> None:
        self.bits += other.bits
        self.elements += other.elements
        self.squared_error += other.squared_error
        self.squared_norm += other.squared_norm
        self.token_error += other.token_error
        self.tokens += other.tokens

    @property
    def bits_per_element(self) -> float:
        return self.bits / self.elements if self.elements else 0.0

    @property
    def nmse(self) -> float:
        return self.squared_error / self.squared_norm if self.squared_norm else 0.0

    @property
    def error_of_a_token(self) -> float:
        """Mean over tokens. Behind a norm of each token this is what counts; in the NMSE a few large tokens are most of
        what an error is divided by."""
        return self.token_error / self.tokens if self.tokens else 0.0


@dataclass
class Gradient:
    """Errors of one row's gradient of all parameters, a value for each row."""

    cuts: int
    codec: int
    side: str  # what is compressed: forward, backward, both
    nmse: np.ndarray
    cosine: np.ndarray


@dataclass
class Verified:
    """Rows that had no part in the choices."""

    windows: list[int]
    exact: np.ndarray
    chosen: list[np.ndarray]  # by way to cut; empty where nothing was chosen


@dataclass
class Seen:
    """What was evaluated, rows in that order."""

    windows: list[int]  # where a row lies in the text, in rows
    losses: dict[Arm, np.ndarray]
    forward: Mapping[Crossing, Count]  # of tensors before which nothing was compressed
    gradients: list[Gradient] = field(default_factory=list)
    verified: Verified | None = None


@dataclass(frozen=True)
class Worst:
    """The boundary that costs most, against the median one (the lower of two in the middle)."""

    worst: int  # indices into the cuts
    median: int
    more: Measured  # of their paired difference
    pairs: int


@dataclass(frozen=True)
class Depth:
    """A codec at all cuts together. Deltas in nat per token."""

    cuts: int
    codec: int
    delta: Measured
    per_crossing: Measured  # over S - 1 crossings
    bits: float  # per element
    sum_alone: Measured  # of the same boundaries one by one
    interaction: Measured | None  # delta - sum_alone; none of one boundary
    worst: Worst | None
    neighbour_correlation: float  # of rows' Deltas that follow each other in the text


@dataclass(frozen=True)
class Boundary:
    """A codec at one boundary alone."""

    crossing: Crossing
    delta: Measured
    count: Count


@dataclass(frozen=True)
class Allowed:
    """Codecs that are shown to cost at most, or more than, `nat`. Between the two nothing is shown."""

    cuts: int
    nat: float
    enough: int | None  # of the fewest bits whose whole interval lies at or below
    too_few: int | None  # of the most bits whose whole interval lies above


@dataclass(frozen=True)
class Choice:
    """Cuts and codecs within a budget, or why there are none."""

    cuts: int
    none: str = ""
    arm: Arm = ()
    bits: float = 0.0  # sum over boundaries, per element
    predicted: Measured | None = None  # sum of the prices, on the rows that were priced
    together: Measured | None = None  # on other rows, all its boundaries at once
    verdict: str | None = None  # of `together`


@dataclass(frozen=True)
class GradientError:
    cuts: int
    codec: int
    side: str
    nmse: Measured
    cosine: Measured


@dataclass(frozen=True)
class Findings:
    exact: Measured  # nat per token of the uncompressed model
    depths: list[Depth]
    boundaries: list[Boundary]
    allowed: list[Allowed]
    choices: list[Choice]  # by cuts; empty without a budget
    gradients: list[GradientError]


def mean_within(x: np.ndarray, least: float, most: float) -> Measured:
    """Mean of what lies between `least` and `most`: ends of the interval beyond them are cut there."""
    mean = mean_of(x)
    if mean.interval is None:
        return mean
    i = mean.interval
    return Measured(mean.value, Interval(max(i.low, least), min(i.high, most), i.level, i.method))


def find_worst(alone: Sequence[np.ndarray]) -> Worst | None:
    """None of fewer than two boundaries. The two are picked by the data: the level is that of one of all pairs of
    boundaries when 95 % is wanted of all together (Bonferroni)."""
    if len(alone) < 2:
        return None
    order = sorted(range(len(alone)), key=lambda one: float(np.mean(alone[one])))
    worst, median = order[-1], order[(len(order) - 1) // 2]
    pairs = len(alone) * (len(alone) - 1) // 2
    return Worst(worst, median, mean_of(alone[worst] - alone[median], 1 - (1 - LEVEL) / pairs), pairs)


def bits_for(nat: float, depths: Sequence[Depth]) -> tuple[int | None, int | None]:
    """Of depths of one way to cut: the codecs of Allowed."""
    shown = [d for d in depths if d.delta.interval]
    enough = min((d for d in shown if d.delta.interval.high <= nat), key=lambda d: d.bits, default=None)
    too_few = max((d for d in shown if d.delta.interval.low > nat), key=lambda d: d.bits, default=None)
    return enough and enough.codec, too_few and too_few.codec


def neighbour_correlation(x: np.ndarray) -> float:
    """Of x with its neighbour, x in the order of the text: near 0 where rows are long enough to count as independent.
    0 for a constant."""
    apart = x - np.mean(x)
    whole = float(apart @ apart)
    return float(apart[1:] @ apart[:-1]) / whole if whole > 0 else 0.0


def neighbour_bound(rows: int, arms: int) -> float:
    """Above this neighbours are alike beyond chance: the largest of `arms` correlations stays below it in 97.5 % where
    rows are independent."""
    return normal_quantile(1 - (1 - LEVEL) / 2 / arms) / math.sqrt(rows)


def _front(all_of):
    """What no other beats in both bits and nat: ascending bits, falling nat."""
    kept, least = [], math.inf
    for bits, nat, arm in sorted(all_of, key=lambda one: one[:2]):
        if nat < least:
            least = nat
            kept.append((bits, nat, arm))
    return kept


def choose(prices: Mapping[Crossing, tuple[float, float]], ranges: Sequence[range], budget_nat: float) -> Arm | str:
    """Of all ways to place one boundary in each range, ascending, each with a codec: that of the fewest bits whose
    prices add up to at most `budget_nat`; of several with as few bits the cheapest. Exact, by the front of (bits, nat)
    boundary by boundary. Takes boundaries to add up: Depth.interaction says how far they do.

    Args:
        prices: (nat, bits per element) of a codec at one boundary alone; nat may lie below 0 by chance.

    Returns:
        The arm, or why there is none, with the least that any costs.
    """
    # By the block of the last boundary: only that bears on what may follow. Bits in whole millionths, so that sums of
    # the same codecs are equal in any order.
    fronts = {0: [(0, 0.0, ())]}
    for places in ranges:
        following = {}
        for crossing, (nat, bits) in prices.items():
            if crossing[0] not in places:
                continue
            for last, front in fronts.items():
                if last < crossing[0]:
                    following.setdefault(crossing[0], []).extend(
                        (b + round(bits * 1e6), n + nat, (*arm, crossing)) for b, n, arm in front)
        fronts = {block: _front(every) for block, every in following.items()}
    every = _front(one for front in fronts.values() for one in front)
    if not every:
        return "no boundaries can be placed so with prices that are known"
    for _, nat, arm in every:
        if nat <= budget_nat:
            return arm
    return f"no choice of these codecs costs as little as {budget_nat:.4g} nat: the least is {every[-1][1]:.4g}"


def verdict_of(low: float, high: float, budget_nat: float) -> str:
    """What a choice was seen to cost on rows that had no part in it."""
    if high <= budget_nat:
        return "within the budget"
    return "beyond the budget" if low > budget_nat else "not shown: the interval holds the budget"


def _sum_alone(seen, arm):
    """Sum over an arm's boundaries of the row's Delta at each alone."""
    return sum((seen.losses[(crossing,)] - seen.losses[()] for crossing in arm), np.zeros(len(seen.losses[()])))


def _depth(request, seen, cuts, codec):
    arm = arm_of(request.cuts[cuts], codec)
    delta, alone = seen.losses[arm] - seen.losses[()], [seen.losses[(crossing,)] for crossing in arm]
    added = _sum_alone(seen, arm)
    count = Count()
    for crossing in arm:
        count.add(seen.forward[crossing])
    return Depth(cuts, codec, mean_of(delta), mean_of(delta / len(arm)), count.bits_per_element, mean_of(added),
                 mean_of(delta - added) if len(arm) > 1 else None, find_worst(alone),
                 neighbour_correlation(delta[np.argsort(seen.windows)]))


def choices_of(request: Request, boundaries: Sequence[Boundary], seen: Seen) -> list[Choice]:
    """One for each way to cut; `seen.verified` says what became of them."""
    prices = {b.crossing: (b.delta.value, b.count.bits_per_element) for b in boundaries}
    out = []
    for cuts, blocks in enumerate(request.cuts):
        arm = choose(prices, ranges_around(blocks, request.move, request.blocks), request.budget_nat)
        if isinstance(arm, str):
            out.append(Choice(cuts, none=arm))
            continue
        together = verdict = None
        if seen.verified:
            together = mean_of(seen.verified.chosen[cuts] - seen.verified.exact)
            if together.interval:
                verdict = verdict_of(together.interval.low, together.interval.high, request.budget_nat)
        out.append(Choice(cuts, arm=arm, bits=sum(prices[crossing][1] for crossing in arm),
                          predicted=mean_of(_sum_alone(seen, arm)), together=together, verdict=verdict))
    return out


def find_prices(request: Request, seen: Seen) -> Findings:
    codecs = range(len(request.codecs))
    depths = [_depth(request, seen, cuts, codec) for cuts in range(len(request.cuts)) for codec in codecs]
    boundaries = [Boundary((block, codec), mean_of(seen.losses[((block, codec),)] - seen.losses[()]),
                           seen.forward[(block, codec)]) for block in priced_blocks(request) for codec in codecs]
    allowed = [Allowed(cuts, nat, *bits_for(nat, [d for d in depths if d.cuts == cuts]))
               for cuts in range(len(request.cuts)) for nat in request.allowed_nat]
    gradients = [GradientError(g.cuts, g.codec, g.side, mean_within(g.nmse, 0.0, math.inf),
                               mean_within(g.cosine, -1.0, 1.0))
                 for g in seen.gradients]
    choices = choices_of(request, boundaries, seen) if request.budget_nat else []
    return Findings(mean_of(seen.losses[()]), depths, boundaries, allowed, choices, gradients)
