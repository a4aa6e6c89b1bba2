"""What a program tells the record of the `longhaul launch` that runs it."""

import json
import math
import os
import time

_file = None  # opened at the first line; False: this program runs under no launch


def log(step=None, *, loss=None, tokens=0, final=None, standard_error=None, group=None):
    """Tells the record a training step, the final loss, or what a group's boundaries sent.

        longhaul.log(step, loss=loss.item(), tokens=tokens_of_this_rank)
        longhaul.log(final=held_out_loss, standard_error=0.02)
        longhaul.log(group=pipeline)      # its codecs' bytes, before it is destroyed

    step: a whole number from 1, told once. loss, final: nat per token, finite. tokens: trained by this
    rank in this step. standard_error: of final, over held-out rows; without one the record has
    final as a fact, and no evaluation. group: a process group of the backend "longhaul".

    Each rank tells what it knows; the seconds of a step are those since its last one. Outside of
    `longhaul launch` nothing is told and nothing happens. TypeError, ValueError: a figure is none.
    """
    if step is None and final is None and group is None:
        raise ValueError("longhaul.log: tell a step, final= or group=")
    lines = []
    if step is not None:
        lines.append({"step": _whole("step", step, 1), "loss": _number("loss", loss),
                      "tokens": _whole("tokens", tokens, 0)})
    if final is not None:
        lines.append({"final": _number("final", final),
                      "standard_error": _number("standard_error", standard_error)})
    file = _open()
    if group is not None and file:
        lines.extend({"crossing": crossing} for crossing in _sent(group))
    if file:
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
    if not math.isfinite(value):
        raise ValueError(f"longhaul.log: {name} is {value}; want a finite number")
    return value


def _sent(group):
    import torch.distributed as dist
    from longhaul.groups import crossings
    for crossing in crossings(group):
        if crossing.sent and crossing.tensors:
            yield {"peer": dist.get_global_rank(group, crossing.peer), "codec": crossing.codec,
                   "kind": crossing.kind, "tensors": crossing.tensors,
                   "elements": crossing.elements, "payload_bytes": crossing.payload_bytes,
                   "message_bytes": crossing.message_bytes, "encode_s": crossing.encode_s,
                   "decode_s": crossing.decode_s, "nmse_samples": crossing.nmse_samples,
                   "nmse_sum": crossing.nmse_sum, "nmse_max": crossing.nmse_max}
