"""longhaul: torch.distributed over wide-area links, with compressed pipeline boundaries.

Importing this package registers the backend "longhaul"; installed with pip, even that import is
not needed. One line of a training program changes::

    import longhaul
    import torch.distributed as dist

    dist.init_process_group("longhaul")

Every group is lossless unless its options opt in. A pipeline's group opts in like this::

    pipeline = dist.new_group(
        ranks, backend="longhaul",
        pg_options=longhaul.Options(forward="int4-b64-h64", backward="int8-b64"))

Activations then use the forward codec and gradients the backward codec: stages of
torch.distributed.pipelining say which is which; for other sends, those to a higher rank of the group
are activations. Collectives, integer tensors and small tensors stay exact. What really went over the
wire::

    for crossing in longhaul.crossings(pipeline):
        print(crossing.peer, crossing.codec, crossing.kind, crossing.bits_per_element)

Codecs can be tried on a tensor, and programs behind shaped links, without a group::

    frame = longhaul.encode(torch.randn(64, 256), "int4-b64-h64")
    print(longhaul.decode(frame).shape, 8 * frame.numel() / (64 * 256), "bits per element")

Runs and their records, estimates, plans, and what compression costs a model of yours, as data frames: run, read, measure,
plan, simulate and price; docs/python.md shows each.

See help(longhaul.Lab) for labs, and docs/torch-backend.md for what is supported and errors.
"""

import importlib as _importlib
import os as _os
import sys as _sys

__version__ = "0.1.0"

# Public name: the module that has it, which is imported when the name is first used.
_NAMES = {
    "measure": "api", "plan": "api", "read": "api", "run": "api", "simulate": "api",
    "codecs": "coding", "decode": "coding", "encode": "coding",
    "Crossing": "groups", "Stats": "groups", "Traffic": "groups", "crossings": "groups", "recent_operations": "groups",
    "stats": "groups", "traffic": "groups", "transport": "groups",
    "Lab": "lab",
    "Options": "options",
    "price": "pricing.modules",
    "activation_tag": "pipelining", "gradient_tag": "pipelining",
    "isend_decoded": "sends", "send_decoded": "sends",
    "Refused": "refusal",
    "log": "run_log",
}
__all__ = sorted(_NAMES)


def __getattr__(name):
    if name not in _NAMES:
        raise AttributeError(f"module 'longhaul' has no attribute {name!r}")
    value = getattr(_importlib.import_module(f"longhaul.{_NAMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted([*globals(), *__all__])


# A verb of the command reads records and needs no torch, whose import takes seconds: experiments/run/reader.cc. So does
# `python -m longhaul`.
_words = _sys.orig_argv[1:]
if _os.environ.pop("LONGHAUL_READS", None) is None and ["-m", "longhaul"] not in (_words[i:i + 2] for i in range(3)):
    from longhaul.registration import register as _register

    _register()  # imports torch, which may come back for longhaul.autoload while this module is not done
