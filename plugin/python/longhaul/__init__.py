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

See help(longhaul.Lab) for labs, and docs/torch-backend.md for what is supported and errors.
"""

from longhaul.coding import codecs, decode, encode
from longhaul.groups import (Crossing, Stats, Traffic, crossings, recent_operations, stats, traffic,
                             transport)
from longhaul.lab import Lab
from longhaul.options import Options
from longhaul.pipelining import activation_tag, gradient_tag
from longhaul.registration import register as _register
from longhaul.sends import isend_decoded, send_decoded
from longhaul.telling import log

__version__ = "0.1.0"
__all__ = ["Crossing", "Lab", "Options", "Stats", "Traffic", "activation_tag", "codecs", "crossings",
           "decode", "encode", "gradient_tag", "isend_decoded", "log", "recent_operations",
           "send_decoded", "stats", "traffic", "transport"]

_register()  # imports torch, which may come back for longhaul.autoload while this module is not done
