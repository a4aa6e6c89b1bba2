"""What a process group of the backend "longhaul" can be told: pass it as pg_options."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Mapping


@dataclass(frozen=True)
class Options:
    """The default sends everything lossless. All ranks of a group must give equal codec options.

    forward: codec of float tensors sent to a higher rank of the group ("none": exact bytes).
    backward: codec of float tensors sent to a lower rank.
    by_tag: codec by the tag of the send; wins over the direction. Schedules that send activations
        from the last rank back to the first (interleaved ones) need it.
    min_elements: smaller tensors stay lossless.
    seed: of the codecs' rounding noise; equal seeds give equal bytes.
    nmse_every: n > 0: the sender decodes every n-th encoded tensor and records its error.
    ef_slots: how many states a codec that has one ("+ef", "+ef21", "aqsgd4") keeps per peer and
        tag; the same on every rank. Set it to the micro-batches of a step.

    The rest concerns the process, whose groups share one connection to the network; the first
    group decides.

    interface: network interface that every byte must cross, for example "eth0". Empty: the one
        interface besides lo; where there are several, the error lists them.
    peer_deadline: a peer silent for longer is dead. Must exceed round trip plus queueing.
    credit_bytes: bytes a sender may have under way per peer; at least two bandwidth-delay products.
    shared_memory: lets processes of one host exchange data past the network interface.
    ucx_environment: accepts variables UCX_* of the environment, which could undo what is set here;
        otherwise they are an error that names them.
    """

    forward: str = "none"
    backward: str = "none"
    by_tag: Mapping[int, str] = field(default_factory=dict)
    min_elements: int = 4096
    seed: int = 0
    nmse_every: int = 0
    ef_slots: int = 1
    interface: str = ""
    peer_deadline: timedelta = timedelta(seconds=30)
    credit_bytes: int = 64 << 20
    shared_memory: bool = False
    ucx_environment: bool = False

    def native(self, adapter):
        """The same options as an object of the extension module `adapter`."""
        native = adapter.Options()
        native.set_codecs(self.forward, self.backward, dict(self.by_tag), self.min_elements)
        native.set_node(
            self.interface,
            self.peer_deadline,
            self.credit_bytes,
            self.shared_memory,
            self.ucx_environment,
        )
        native.seed = self.seed
        native.nmse_every = self.nmse_every
        native.ef_slots = self.ef_slots
        return native
