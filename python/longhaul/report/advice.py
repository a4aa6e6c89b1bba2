"""What a run's settings and data do to its figures: a line each, with the figures; none where nothing is to be said."""

import math
import re

from longhaul.record import Evaluation, Run
from longhaul.record import rows
from longhaul.tables import Measured

LEAST_CLIPPED_SHARE = 0.05
UNIGRAM_MARGIN_NAT = 0.05  # nearer than this a model has learnt nothing to speak of, whatever the interval


def clipping_advice(runs: list[Run]) -> list[str]:
    """After training: a clip_norm that acted in under 5 % of all steps."""
    counts = [found for run in runs for key, told in run.facts.items()
              if key.endswith("_clipped_steps") and (found := re.match(r"\s*(-?\d+) of\s*(-?\d+)", told))]
    clipped, steps = (sum(int(found[part]) for found in counts) for part in (1, 2))
    if not steps or clipped / steps >= LEAST_CLIPPED_SHARE:
        return []
    return [f"advice: clipping acted in {clipped} of {steps} steps of a stage, under {100 * LEAST_CLIPPED_SHARE:g} %; a "
            "train.clip_norm that acts keeps single batches from moving a run"]


def data_advice(runs: list[Run]) -> list[str]:
    """What makes a held-out loss another figure than that of unseen text: windows that are in the training text too, and
    a training text that is passed more than once. Each line once."""
    lines = []
    for run in runs:
        seen, epochs = run.facts.get(rows.HELD_OUT_IN_TRAINING, ""), run.facts.get(rows.EPOCHS, "")
        if seen and not seen.startswith("0 "):
            lines.append(f"note: {seen} held-out windows are in the training text: the held-out loss is lower than that of "
                         "unseen text")
        if epochs and float(epochs) > 1:
            lines.append(f"note: {epochs} epochs: {run.train_tokens} training tokens pass the training text more than once, "
                         "and what a repeated token teaches is less than what a new one does")
    return list(dict.fromkeys(lines))


def judge_learnt(name: str, loss: Measured, codec: str, unigram_nat: float) -> list[str]:
    """A model that has learnt no more than how often each byte occurs says nothing about what was done to it. Its loss is
    then the unigram entropy of what it is evaluated on."""
    high = loss.interval.high if loss.interval else loss.value
    if max(high, loss.value + UNIGRAM_MARGIN_NAT) < unigram_nat:
        return []
    ends = f" [{loss.interval.low:.3f}, {loss.interval.high:.3f}]" if loss.interval else ""
    return [f"note: {name} learnt no more than byte frequencies: it ends at {loss.value:.3f}{ends} nat (codec {codec}), and "
            f"the unigram entropy of the held-out tokens is {unigram_nat:.3f}; it says nothing of codecs"]


def learnt_nothing(run: Run, evaluations: list[Evaluation]) -> list[str]:
    """Of one run: by the better of its last losses, codec off and on."""
    last = {e.codec: e.loss_nat for e in evaluations}  # in the order of steps
    finite = sorted((loss, codec != "off", codec) for codec, loss in last.items() if math.isfinite(loss))
    try:
        unigram_nat = float(run.facts.get(rows.UNIGRAM, ""))
    except ValueError:
        return []
    return judge_learnt("this run", Measured(finite[0][0]), finite[0][2], unigram_nat) if finite else []
