"""The lines that a program logs for the record of the `longhaul launch` or campaign that runs it."""

from __future__ import annotations

import atexit
import json
import math
import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

_file = None  # opened at the first line; False: no file was asked for
_groups = {}  # (backend, global ranks) by the backend's id; their bytes are logged at exit


def log(step: int | None = None, *, loss: float | None = None, tokens: int = 0,
        final: float | None = None, standard_error: float | None = None,
        final_on: float | None = None, group: ProcessGroup | None = None) -> None:
    """Logs a training step, the final loss, or what a group's boundaries sent.

        longhaul.log(step, loss=loss.item(), tokens=tokens_of_this_rank)
        longhaul.log(final=held_out_loss, standard_error=0.02)
        longhaul.log(group=pipeline)      # its codecs' bytes until now

    Each rank logs what it knows. The seconds of a step count from the rank's last step. Outside
    `longhaul launch` and campaigns the call does nothing.

    Args:
        step: A whole number from 1; each step is logged once.
        loss: Training loss, nat per token. A value that is not finite counts as diverged.
        tokens: Number of tokens that this rank trained on in this step.
        final: Held-out loss with exact boundaries, nat per token. schedule.eval() evaluates so where
            the codecs come from the environment.
        standard_error: Standard error of `final` over held-out rows. Without it a launch's record
            keeps `final` as a fact and has no evaluation.
        final_on: Loss of the same weights, evaluated with the codecs.
        group: A process group of the backend "longhaul". Groups that are not logged by then are
            logged when the program ends.

    Raises:
        TypeError: An argument is not a number.
        ValueError: A number is out of range, or all arguments are missing.
    """
    if step is None and final is None and final_on is None and group is None:
        raise ValueError("longhaul.log: pass a step, final= or group=")
    lines = []
    if step is not None:
        lines.append({"step": _whole("step", step, 1), "loss": _number("loss", loss),
                      "tokens": _whole("tokens", tokens, 0)})
    if final is not None or final_on is not None:
        told = {"final": final, "final_on": final_on, "standard_error": standard_error}
        lines.append({name: _number(name, value) for name, value in told.items()
                      if value is not None})
    if group is not None and _open():
        lines.extend(_sent_by(group))
    _write(lines)


def log_environment(environment):
    """Logs the environment variables that this program uses, a dict."""
    _write([{"environment": environment}])


def log_on_exit(backend, global_ranks):
    """Logs the bytes that a group has sent when this process ends.

    global_ranks: The global rank of each rank of the group; empty where they are the same.
    """
    if not _open():
        return
    if not _groups:
        atexit.register(_log_groups, os.getpid())
    _groups[id(backend)] = (backend, list(global_ranks))


def _log_groups(pid):
    if os.getpid() != pid:
        return  # of a forked process
    for backend, ranks in _groups.values():
        _write([{"crossing": crossing} for crossing in _sent(backend, ranks)])
    _groups.clear()


def _sent_by(group):
    import torch.distributed as dist
    from longhaul.groups import _backend_of

    backend = _backend_of(group)
    _groups.pop(id(backend), None)  # logged here
    ranks = dist.get_process_group_ranks(group)
    return [{"crossing": crossing} for crossing in _sent(backend, ranks)]


def _write(lines):
    file = _open()
    if file and lines:
        now = time.monotonic()
        # One write a call: the file is opened to append, so lines of forked workers do not mix.
        file.write("".join(json.dumps({"t": now, **line}) + "\n" for line in lines))
        file.flush()


def _open():
    global _file
    if _file is None:
        path = os.environ.get("LONGHAUL_LOG", "")
        _file = open(path, "a", encoding="utf-8") if path else False
    return _file


def _whole(name, value, least):
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"longhaul.log: {name} is {value!r}; want a whole number")
    if value < least:
        raise ValueError(f"longhaul.log: {name} is {value}; want {least} or more")
    return int(value)


def _number(name, value):
    if value is None:
        return None
    value = float(value)
    if math.isfinite(value):
        return value
    if name == "standard_error":
        raise ValueError(f"longhaul.log: {name} is {value}; want a finite number")
    return "nan"  # JSON has none


def _sent(backend, global_ranks):
    from longhaul.groups import Crossing

    for crossing in (Crossing(**counters) for counters in backend.crossings()):
        collective = crossing.collective_bytes if crossing.codec != "none" else 0
        if crossing.sent and (crossing.tensors or collective):
            peer = global_ranks[crossing.peer] if global_ranks else crossing.peer
            yield {"peer": peer, "codec": crossing.codec,
                   "kind": crossing.kind, "tensors": crossing.tensors,
                   "elements": crossing.elements, "payload_bytes": crossing.payload_bytes,
                   "message_bytes": crossing.message_bytes, "collective_bytes": collective, "encode_s": crossing.encode_s,
                   "decode_s": crossing.decode_s, "nmse_samples": crossing.nmse_samples,
                   "nmse_sum": crossing.nmse_sum, "nmse_max": crossing.nmse_max}
