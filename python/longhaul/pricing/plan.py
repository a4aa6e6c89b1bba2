"""What a pricing evaluates, as plain values. Letters: L blocks of the model, S stages.

A crossing (block, codec) is the tensor that enters block `block`, 1 to L - 1, compressed by codec number `codec` of a
list. An arm is a tuple of crossings in ascending order, one way to compress a model; () compresses nothing. A way to
cut a model is a tuple of the blocks with which stages 1, 2, ... begin.
"""

from collections.abc import Sequence
from dataclasses import dataclass

Crossing = tuple[int, int]
Arm = tuple[Crossing, ...]

LEAST_ROWS = 5  # that an interval is made of
ROWS, CONTEXT = 32, 512  # what stands for what is not given
ALLOWED_NAT = (0.001, 0.01, 0.1)

_HELD_OUT_ORDER = 0x68656C646F7574  # pp_group/data/corpus.cc
_MASK = 2**64 - 1


@dataclass(frozen=True)
class Request:
    """What is asked of a model."""

    codecs: tuple[str, ...]
    cuts: tuple[tuple[int, ...], ...]  # each way to cut the model
    blocks: int  # L
    rows: int  # to price on; as many more to verify a choice on
    allowed_nat: tuple[float, ...] = ALLOWED_NAT  # losses for which bits are named
    budget_nat: float | None = None  # of a choice of cuts and codecs
    move: int = 0  # blocks by which a choice may move a cut
    gradient_rows: int = 0


def equal_cuts(blocks: int, stages: int) -> tuple[int, ...]:
    """Of S stages as equal as they can be: stage s begins at floor(s L / S). Cuts of S are among those of 2 S."""
    return tuple(s * blocks // stages for s in range(1, stages))


def arm_of(cuts: Sequence[int], codec: int) -> Arm:
    """The same codec at every cut."""
    return tuple((block, codec) for block in cuts)


def ranges_around(cuts: Sequence[int], move: int, blocks: int) -> list[range]:
    """Where each boundary may lie: at most `move` blocks from its cut, within 1 to L - 1."""
    return [range(max(1, cut - move), min(blocks - 1, cut + move) + 1) for cut in cuts]


def priced_blocks(request: Request) -> list[int]:
    """Blocks that are priced alone: of every cut and, with a budget, where a choice may put one."""
    move = request.move if request.budget_nat else 0
    return sorted({block for cuts in request.cuts for places in ranges_around(cuts, move, request.blocks)
                   for block in places})


def arms_of(request: Request) -> list[Arm]:
    """What has to be evaluated: nothing compressed, each boundary alone, all of each way to cut."""
    codecs = range(len(request.codecs))
    arms: list[Arm] = [(), *(((block, codec),) for block in priced_blocks(request) for codec in codecs),
                       *(arm_of(cuts, codec) for cuts in request.cuts for codec in codecs)]
    return list(dict.fromkeys(arms))


def fold_seed(*values: int) -> int:
    """FoldSeed of compressors/numbers/noise.h: splitmix64 of each value and what came before."""
    h = 0
    for value in values:
        x = ((h ^ value) + 0x9E3779B97F4A7C15) & _MASK
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB & _MASK
        h = x ^ (x >> 31)
    return h


def window_of(index: int, windows: int) -> int:
    """Which window of a held-out text its row `index` is: the one fixed shuffled order of Corpus::HeldOutWindow."""
    if windows < 2:
        return index
    half = ((windows - 1).bit_length() + 1) // 2
    while True:
        left, right = index >> half, index & (1 << half) - 1
        for turn in range(4):
            left, right = right, left ^ fold_seed(_HELD_OUT_ORDER, turn, right) & (1 << half) - 1
        index = left << half | right
        if index < windows:
            return index
