"""Resolved specs of the record: what they say, in what two differ, and what of it a loss can be booked on."""

from dataclasses import dataclass

from longhaul.record import Run
from longhaul.record.specs import tree, value

_BOOKED = {"schedule.stages", "schedule.cuts", "boundary.forward", "boundary.backward", "boundary.mask_gradients",
           "boundary.warmup_steps"}
# What an arm of DiLoCo may change against data parallel with the same global batch: the outer step's keys, and how that
# batch is shared out.
OUTER_CELL_KEYS = {"outer." + key for key in (
    "groups", "algorithm", "inner_steps", "lr", "momentum", "codec", "fragments", "overlap_steps", "mix", "mean",
    "cluster_groups", "global_every", "warmup_steps", "lr_schedule", "lr_warmup_rounds", "global_codec")} | {
    "train.optimizer", "train.batch_rows", "train.microbatches"}


@dataclass(frozen=True)
class SpecChange:
    key: str  # "train.lr"
    before: str  # as TOML; "-": lacks it
    after: str


def _keys(toml):
    """The engine's own TOML has one "[table]", "[[table]]" or "key = value" a line. The tables of an array are told
    apart by their place in it: "fault[0].what"."""
    keys, table, met = {}, "", {}
    for line in toml.split("\n"):
        if line.startswith("[["):
            array = line[2:].partition("]")[0]
            table = f"{array}[{met.setdefault(array, 0)}]."
            met[array] += 1
        elif line.startswith("["):
            table = line[1:].partition("]")[0] + "."
        elif " = " in line:
            key, _, said = line.partition(" = ")
            keys.setdefault(table + key, said)
    return keys


def spec_changes(before: str, after: str) -> list[SpecChange]:
    """Keys that differ, in the order of the specs. `seed` is never one: arms are paired by it."""
    was, now = _keys(before), _keys(after)
    found = [SpecChange(key, said, now.get(key, "-")) for key, said in was.items() if now.get(key, "-") != said]
    found += [SpecChange(key, "-", said) for key, said in now.items() if key not in was]
    return [change for change in found if change.key != "seed"]


def changes_beside_codecs(before: str, after: str) -> list[SpecChange]:
    """Of those, what a loss cannot be booked on crossings beside. Empty: the two may have a q between them."""
    return [c for c in spec_changes(before, after)
            if c.key not in _BOOKED and not c.key.startswith(("boundary.cuts.", "boundary.policy."))]


def changes_text(changes: list[SpecChange]) -> str:
    """"train.lr 0.003 > 0.002, train.clip_norm 1.0 > inf"; "" for none."""
    return ", ".join(f"{c.key} {c.before} > {c.after}" for c in changes)


def compressed_crossings(stages: int, forward: str, backward: str) -> int:
    """K: for each direction S - 1, none where the codec is "none", or as many boundaries as its text names. No name of
    a codec has a comma, a semicolon or a space."""
    def of(codecs):
        if codecs == "none":
            return 0
        return 1 + codecs.count(",") + codecs.count(";") if " at " in codecs else stages - 1
    return of(forward) + of(backward)


def spec_of(run: Run) -> dict:
    """The resolved spec; empty where it cannot be read."""
    return tree(run.spec_toml) or {}


def number_of(spec: dict, path: str, kind: type = int):
    """What a spec says under "model.width" where it is of this kind; None: nothing."""
    found = value(spec, path)
    return found if type(found) is kind else None
