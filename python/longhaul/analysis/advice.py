"""What makes losses worth less than they look: arms that learnt nothing, held-out text that was trained on. One line
each, with the figures; none where nothing is to be said."""

import math
import re

from longhaul.analysis.interval import mean_of
from longhaul.record import Evaluation, Run
from longhaul.record.rows import EPOCHS, HELD_OUT_IN_TRAINING, UNIGRAM

UNIGRAM_MARGIN_NAT = 0.05  # nearer than this a model has learnt nothing to speak of, whatever the interval
LEAST_CLIPPED_SHARE = 0.05


def _unigram(run):
    try:
        return float(run.facts.get(UNIGRAM, ""))
    except ValueError:
        return None


def _judge(name, off, on, unigram_nat):
    """The better of two mean losses lies above the unigram entropy of what it was evaluated on, within the margin below
    it, or so near that its 95 % interval over seeds holds it."""
    if not off and not on:
        return []
    with_codec = not off or (on and sum(on) / len(on) < sum(off) / len(off))
    loss = mean_of(on if with_codec else off)
    ends = loss.interval
    if max(ends.high if ends else loss.value, loss.value + UNIGRAM_MARGIN_NAT) < unigram_nat:
        return []
    interval = f" [{ends.low:.3f}, {ends.high:.3f}]" if ends else ""
    return [
        f"note: {name} learnt no more than byte frequencies: it ends at {loss.value:.3f}{interval} nat (codec"
        f" {'on' if with_codec else 'off'}), and the unigram entropy of the held-out tokens is {unigram_nat:.3f}; it"
        " says nothing of codecs"
    ]


def learnt_nothing(a) -> list[str]:
    """Of the arms of an analysis; none for records without the entropy."""
    lines = []
    for arm in a.arms:
        known = [nat for o in arm.outcomes if (nat := _unigram(o.run)) is not None]
        if known:
            lines += _judge(f"arm '{arm.name}'", [o.off for o in arm.outcomes if o.off is not None],
                            [o.on for o in arm.outcomes if o.on is not None], known[-1])
    return lines


def run_learnt_nothing(run: Run, evaluations: list[Evaluation]) -> list[str]:
    """The same of one run, by its last evaluations."""
    last = {e.codec: [e.loss_nat] if math.isfinite(e.loss_nat) else [] for e in evaluations}  # in the order of steps
    unigram = _unigram(run)
    return [] if unigram is None else _judge("this run", last.get("off", []), last.get("on", []), unigram)


def clipping_advice(runs: list[Run]) -> list[str]:
    """A clip_norm that acted in under 5 % of all steps, from the runs' facts."""
    found = [re.match(r"\s*(-?\d+) of (-?\d+)", value) for run in runs for key, value in run.facts.items()
             if key.endswith("_clipped_steps")]
    clipped, steps = (sum(int(one[i]) for one in found if one) for i in (1, 2))
    if not steps or clipped / steps >= LEAST_CLIPPED_SHARE:
        return []
    return [
        f"advice: clipping acted in {clipped} of {steps} steps of a stage, under {100 * LEAST_CLIPPED_SHARE:g} %; a "
        "train.clip_norm that acts keeps single batches from moving a run"
    ]


def data_advice(runs: list[Run]) -> list[str]:
    """What makes a held-out loss another figure than that of unseen text: windows that are in the training text too,
    and a training text that is passed more than once. Each line once."""
    lines = {}
    for run in runs:
        seen, epochs = run.facts.get(HELD_OUT_IN_TRAINING, ""), run.facts.get(EPOCHS, "")
        if seen and not seen.startswith("0 "):
            lines[
                f"note: {seen} held-out windows are in the training text: the held-out loss is lower than that of"
                " unseen text"
            ] = None
        if epochs and float(epochs) > 1:
            lines[
                f"note: {epochs} epochs: {run.train_tokens} training tokens pass the training text more than once, and"
                " what a repeated token teaches is less than what a new one does"
            ] = None
    return list(lines)
