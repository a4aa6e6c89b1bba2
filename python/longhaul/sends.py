"""Sends that also answer what the receiver will hold.

With a lossy codec the receivers of a tensor and its sender have different values of it. Whoever goes
on from a sum of such tensors (an outer step over compressed deltas, say) must take its own
as the others got it, or the ranks drift apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed import ProcessGroup, Work


def isend_decoded(tensor: Tensor, dst: int | None = None, group: ProcessGroup | None = None,
                  tag: int = 0, group_dst: int | None = None) -> tuple[Work, Tensor]:
    """torch.distributed.isend; returns (work, decoded).

    decoded is a new tensor like `tensor`. Once work.wait() has returned, it holds what the receiver's
    tensor holds, bit for bit: after the codec that the group sends it with, with its rounding noise
    and what "+ef", "+ef21" and "aqsgd4" keep from earlier sends; a copy where it goes exact. The
    values of a CUDA tensor go through host memory. Ranks that are sent the same tensors with
    the same tags in the same order get the same bits.
    """
    import torch
    import torch.distributed as dist

    from longhaul.groups import _backend_of

    if dst is None and group_dst is None:
        raise ValueError("longhaul.isend_decoded: give dst (a global rank) or group_dst")
    group = dist.group.WORLD if group is None else group
    backend = _backend_of(group)
    decoded = torch.empty_like(tensor, requires_grad=False, memory_format=torch.contiguous_format)
    where = {"group_dst": group_dst} if dst is None else {"dst": dst}
    backend.decode_next_send(decoded)
    try:
        work = dist.isend(tensor, group=group, tag=tag, **where)
    finally:
        backend.decode_next_send(None)  # it was refused before it came to the group
    return work, decoded


def send_decoded(tensor: Tensor, dst: int | None = None, group: ProcessGroup | None = None,
                 tag: int = 0, group_dst: int | None = None) -> Tensor:
    """torch.distributed.send; returns what the receiver holds, as isend_decoded does."""
    work, decoded = isend_decoded(tensor, dst, group, tag, group_dst)
    work.wait()
    return decoded
