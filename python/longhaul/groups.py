"""What a group of this backend has sent and received."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


@dataclass(frozen=True)
class Crossing:
    """What crossed in one direction between this rank and one peer with one codec, of one kind,
    since the group was made.

    codec is "none" for what stayed exact: small or integer tensors, collectives without a codec.
    kind is "activation" or "gradient" as the tag said it, or for an encoded tensor the order of
    ranks; empty: nothing did.
    payload_bytes are codec frames (or raw values), message_bytes include the transport's headers,
    both of point-to-point tensors only; collective_bytes are the messages of collectives. None
    counts TCP/IP. nmse_* are measured by the sender when Options.nmse_every asks for it.
    device_tensors were coded by a GPU where they lie; the other tensors went through host memory.
    payload_hash depends on every payload byte and their order: equal in two runs that sent the same.
    """

    peer: int
    sent: bool
    codec: str
    kind: str
    tensors: int
    elements: int
    payload_bytes: int
    message_bytes: int
    device_tensors: int
    encode_s: float
    decode_s: float
    nmse_samples: int
    nmse_sum: float
    nmse_max: float
    payload_hash: int
    collective_bytes: int

    @property
    def bits_per_element(self) -> float:
        return 8 * self.payload_bytes / self.elements if self.elements else 0.0


@dataclass(frozen=True)
class Traffic:
    """All groups of this process together: whole messages, without TCP/IP headers.

    refused_messages arrived damaged; refused_strangers came from processes that are of none of this
    process's groups; silent_connections said nothing for peer_deadline and were ended
    (docs/security.md). All three should be 0.
    """

    sent_bytes: int
    received_bytes: int
    sent_messages: int
    received_messages: int
    refused_messages: int
    refused_strangers: int
    silent_connections: int


def _backend_of(group):
    import torch
    import torch.distributed as dist

    group = dist.group.WORLD if group is None else group
    if group is None:
        raise ValueError("longhaul: no process group; call init_process_group first")
    seen = []
    for device in ("cpu", "cuda"):
        try:
            backend = group._get_backend(torch.device(device))
        except RuntimeError:
            continue
        backend = getattr(backend, "wrapped_pg", backend)  # TORCH_DISTRIBUTED_DEBUG=DETAIL wraps it
        if hasattr(backend, "crossings"):
            return backend
        seen.append(f"{device}: {type(backend).__name__}")
    raise ValueError(f"longhaul: not a group of the backend longhaul ({', '.join(seen)})")


def crossings(group: ProcessGroup | None = None) -> list[Crossing]:
    """List of Crossing of a group (default: the default group): for each peer and direction a row
    for each codec and kind that crossed."""
    return [Crossing(**counters) for counters in _backend_of(group).crossings()]


def traffic(group: ProcessGroup | None = None) -> Traffic:
    """Traffic of the process, whose groups share one connection."""
    return Traffic(**_backend_of(group).traffic())


@dataclass(frozen=True)
class Stats:
    """What a group did and over what: crossings and transport are the group's, traffic is the
    process's."""

    crossings: list[Crossing]
    traffic: Traffic
    transport: str


def stats(group: ProcessGroup | None = None) -> Stats:
    """Stats of a group (default: the default group) until now. ValueError: it is of another backend."""
    return Stats(crossings(group), traffic(group), transport(group))


def recent_operations(group: ProcessGroup | None = None) -> str:
    """Text: the last 32 operations of a group with each rank, the newest last: kind, tag or number, bytes,
    state, age. What a time-out writes into the file that its error names."""
    return _backend_of(group).recent_operations()


def transport(group: ProcessGroup | None = None) -> str:
    """What really carries the bytes, read back from the transport, why over this interface, and how
    many threads encode and decode them: "ucx tcp/eth0 (the only one up), 2 coder threads"."""
    return _backend_of(group).description()
