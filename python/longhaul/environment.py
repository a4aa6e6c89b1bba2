"""Codecs that the environment names, as a campaign's arm tells them to a program that knows of none.

Read by the default group that was given no options, and by Options.from_environment():

    LONGHAUL_FORWARD, LONGHAUL_BACKWARD   codecs of activations and gradients
    LONGHAUL_OUTER_CODEC                  codec of sums: all_reduce and reduce_scatter
    LONGHAUL_SEED                         of their rounding noise (0)

Groups that are derived from the default one take over its codecs (inheritance.py). Evaluation, where
no backward pass follows, crosses exact: a held-out loss is then of the weights alone.
"""

import os
import sys

from longhaul import pipelining, run_log
from longhaul.options import Options

_FORWARD, _BACKWARD, _OUTER = "LONGHAUL_FORWARD", "LONGHAUL_BACKWARD", "LONGHAUL_OUTER_CODEC"
_SEED = "LONGHAUL_SEED"
_SUMS = ("all_reduce", "reduce_scatter")
_NMSE_EVERY = 16  # as of longhaul's own runs
_STAGES_OF_A_RANK = 8  # most that have their evaluation's tags named here


def options(**fields):
    """Options of the variables that are set; None where no codec is. ValueError: LONGHAUL_SEED."""
    used = {name: os.environ[name] for name in (_FORWARD, _BACKWARD, _OUTER, _SEED)
            if name in os.environ}
    codecs = {name: codec for name, codec in used.items() if name != _SEED and codec != "none"}
    if not codecs:
        return None
    seed = used.get(_SEED, "0")
    if not seed.isdigit():
        raise ValueError(f"longhaul: {_SEED}={seed}: want a whole number from 0")
    _say(used)
    stages = _STAGES_OF_A_RANK * int(os.environ.get("WORLD_SIZE", "1"))
    exact = {pipelining.evaluation_tag(stage): "none" for stage in range(stages)}
    return Options(**{"forward": used.get(_FORWARD, "none"),
                      "backward": used.get(_BACKWARD, "none"), "by_tag": exact,
                      "collectives": dict.fromkeys(_SUMS, used.get(_OUTER, "none")),
                      "seed": int(seed), "nmse_every": _NMSE_EVERY, **fields})


def _say(used):
    run_log.log_environment(used)
    if os.environ.get("RANK", "0") == "0":
        words = ", ".join(f"{name}={value}" for name, value in sorted(used.items()))
        print(f"longhaul: codecs from the environment: {words}", file=sys.stderr, flush=True)
