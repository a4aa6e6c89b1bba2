"""Are two runs the same to the last bit?

Compares per-step training losses and parameter hashes of every stage, the bytes of every crossing (count and hash), and
the evaluations of both. Runs over loopback and over any links must be equal when their specs differ in [net] alone.
"""

import re
import struct

from longhaul.record import Crossing, Evaluation, Record, Step
from longhaul.record.contents import content_conflict, contents_of
from longhaul.record.rows import same_hashes
from longhaul.refusal import Refused
from longhaul.tables import number


def _bits(x):
    return None if x is None else struct.pack("<d", x)


def _show(x):
    return "none" if x is None else number(x)


def _step_difference(a, b, comparable):
    """`comparable`: their hashes are of one kind. Beside the difference: how many losses and hashes were equal."""
    losses = hashes = 0
    of_b = {(row.step, row.group_index, row.stage): row for row in b}
    for row in a:
        where = f"step {row.step}, group {row.group_index}, stage {row.stage}"
        other = of_b.get((row.step, row.group_index, row.stage))
        if other is None:
            return f"{where}: only one of the runs has it", losses, hashes
        if _bits(row.loss_nat) != _bits(other.loss_nat):
            return f"{where}: loss {_show(row.loss_nat)} against {_show(other.loss_nat)}", losses, hashes
        losses += row.loss_nat is not None
        if not comparable or not row.parameter_hash or not other.parameter_hash:
            continue
        hashes += 1
        if row.parameter_hash != other.parameter_hash:
            return f"{where}: parameters {row.parameter_hash} against {other.parameter_hash}", losses, hashes
    return "", losses, hashes


def _crossing_difference(a, b, resumed):
    """`resumed`: the outer and tied channels of one of them began again at message 1, and a message's number is in its
    hash. Boundary channels go on counting, so that their hashes are those of a whole run."""
    if len(a) != len(b):
        return f"{len(a)} crossings against {len(b)}"
    of_b = {(row.src_rank, row.dst_rank, row.direction): row for row in b}
    for row in a:
        where = f"crossing {row.src_rank} > {row.dst_rank} ({row.direction})"
        other = of_b.get((row.src_rank, row.dst_rank, row.direction))
        if other is None:
            return f"{where}: only one of the runs has it"
        hashed = not resumed or row.direction in ("forward", "backward")
        if row.payload_bytes != other.payload_bytes or (hashed and row.payload_hash != other.payload_hash):
            return (f"{where}: {row.payload_bytes} encoded bytes ({row.payload_hash}) against {other.payload_bytes} "
                    f"({other.payload_hash})")
    return ""


def _evaluation_difference(a, b, equally_long):
    """A shorter run ends before the other is evaluated: `b` may have evaluations that `a` lacks."""
    if equally_long and len(a) != len(b):
        return f"{len(a)} held-out losses against {len(b)}"
    of_b = {(row.step, row.codec): row.loss_nat for row in b}
    for row in a:
        where = f"held-out loss, codec {row.codec}, step {row.step}"
        if (row.step, row.codec) not in of_b:
            if equally_long:
                return f"{where}: only one of the runs has it"
            continue
        other = of_b[row.step, row.codec]
        if _bits(row.loss_nat) != _bits(other):
            return f"{where}: {number(row.loss_nat)} against {number(other)}"
    return ""


def _what_is_equal(a, b, steps, losses, hashes, comparable, crossings, evaluations, whole, resumed):
    """Claims no more than was there to compare: rows without a loss or a hash count as what they are."""
    text = (f"runs {a} and {b} are bit-identical" + ("" if whole else f" in the {len(steps)} step rows that run {a} has")
            + f": {losses} training losses, {hashes} parameter hashes"
            + (f", the encoded bytes of {len(crossings)} crossings" if whole else "") + f", {evaluations} held-out losses")
    missed = []
    if not comparable:
        missed.append("parameter hashes (the runs have them of two kinds)")
    if not whole:
        missed.append("encoded bytes (one run is shorter)")
    elif resumed:
        missed.append("the contents of outer frames (one run was resumed; their sizes were)")
    if not evaluations:
        missed.append("held-out losses (no step has them in both runs)")
    return f"{text}; not compared: {'; '.join([*missed, 'times, links'])}"


def _bearing_on_bits(record, run):
    """What a bit of training hangs on; links are not of it. Whatever the files are called."""
    keys = ("model.init", "init_hash", "data_hash", "eval_hash")
    return [type(c)(c.key, "", c.sha256) for c in contents_of(record.run(run))
            if c.key in keys or c.key.startswith("data.")]


def compare_runs(record: Record, a: int, b: int) -> tuple[bool, str]:
    """Whether they are equal; and what was compared and what was not, or the first difference.

    Raises:
        Refused: Their data or weights are other ones; or a run has no steps; or the first is the longer one.
    """
    if conflict := content_conflict(_bearing_on_bits(record, a), _bearing_on_bits(record, b)):
        raise Refused(f"runs {a} and {b} trained on other files, so that no bit of them need agree: {conflict}, "
                      f"run {a} being there and run {b} here")
    steps_a, steps_b = record.read(Step, a), record.read(Step, b)
    if not steps_a or len(steps_a) > len(steps_b):
        raise Refused(f"run {a} has {len(steps_a)} step rows, run {b} has {len(steps_b)}: nothing to compare, or run {b} "
                      "is the shorter one (name it first)")
    crossings = record.read(Crossing, a)
    evaluations_a, evaluations_b = record.read(Evaluation, a), record.read(Evaluation, b)
    resumed = bool(record.query("SELECT 1 FROM run_facts WHERE key = 'resumed_from_step' AND run_id IN (?, ?)", a, b))
    whole = len(steps_a) == len(steps_b)
    comparable = same_hashes(record.run(a), record.run(b))
    step_difference, losses, hashes = _step_difference(steps_a, steps_b, comparable)
    difference = (step_difference
                  or (_crossing_difference(crossings, record.read(Crossing, b), resumed) if whole else "")
                  or _evaluation_difference(evaluations_a, evaluations_b, whole))
    if difference:
        return False, f"runs {a} and {b} differ, first at {difference}"
    common = {(row.step, row.codec) for row in evaluations_b}
    both = sum((row.step, row.codec) in common for row in evaluations_a)
    return True, _what_is_equal(a, b, steps_a, losses, hashes, comparable, crossings, both, whole, resumed)


def find_run(record: Record, name: str) -> int:
    """A run's number, "last", or an arm's name: the newest run of that arm that trained to its end (links out of bounds
    make its times invalid, not its bits)."""
    if re.fullmatch("[-+]?[0-9]+", name):
        return int(name)
    found = record.query("SELECT arm, status, id FROM runs ORDER BY id DESC")
    for arm, status, run in found:
        if name == "last" or (arm == name and status in ("ok", "invalid")):
            return run
    arms = ", ".join(sorted({arm for arm, _, _ in found}))
    raise Refused(f"no run '{name}' in {record.folder}: want a run's number, 'last', or an arm with a run that ended ok; "
                  f"arms there: {arms}")
