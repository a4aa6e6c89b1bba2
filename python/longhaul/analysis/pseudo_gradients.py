"""Mean outer deltas of a run, the pseudo-gradients, each against the one before: what an outer momentum adds up."""

import math
from collections import defaultdict
from dataclasses import dataclass


@dataclass(slots=True)
class Turn:
    """The mean outer delta of all stages behind an outer step, of a fragment (or level, where clusters meet)."""

    step: int
    fragment: int
    group_index: int  # that tells of it
    norm: float
    cosine_to_last: float | None  # None: nothing before it, in this run, in this life of a resumed one, of this group
    member_cosine: float | None  # of a group's own delta to the mean, on average by norm; None: came with a checkpoint


def _ratio(over, under):
    return over / under if under > 0 else None


def turns(deltas):
    """Of rows of outer_deltas (longhaul.record.OuterDelta)."""
    stages = defaultdict(list)
    for delta in deltas:
        stages[delta.step, delta.fragment, delta.group_index].append(delta)
    out = []
    for key, rows in sorted(stages.items()):
        norm = math.sqrt(sum(row.squared_norm for row in rows))
        known = all(row.dot is not None for row in rows)
        last = math.sqrt(sum(row.last_squared_norm for row in rows)) if known else 0
        members = rows[0].member_norm  # over all stages already
        out.append(Turn(*key, norm, _ratio(sum(row.dot for row in rows), norm * last) if last else None,
                        _ratio(norm, members) if members else None))
    return out
