"""The codecs by themselves: what a tensor costs, and what it is afterwards, without a group."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from longhaul.registration import load_adapter

if TYPE_CHECKING:
    from torch import Tensor


def codecs() -> list[str]:
    """Names that Options, encode() and `longhaul codecs` take, as a list: every plain one, an example
    of each family that has numbers in its name ("topk-64of4096+int8-b64"), and the aliases. Endings
    ("+sr", "+ef", "+ef21", "+mc", "+sat") are in docs/codecs.md."""
    return load_adapter().codecs()


def keeps_state(codec: str) -> bool:
    """Whether what `codec` makes of a tensor depends on those before it ("+ef", "aqsgd4"). ValueError: an unknown
    codec."""
    return load_adapter().keeps_state(codec)


def encode(x: Tensor, codec: str, seed: int = 0) -> Tensor:
    """One frame of `codec`: what a group would send of `x`, as a uint8 tensor [bytes] on the host.

    x: float32, bfloat16 or float16 tensor of any shape, not empty, finite; its last dim is a row.
    seed: of the rounding noise, 0 to 2^64 - 1. A codec with a state ("+ef", "aqsgd4") starts from an
    empty one.  8 * encode(x, c).numel() / x.numel() is bits per element, the 64-byte header included.

    ValueError: an unknown codec (the nearest names are said), "none", NaN or Inf in x, no elements.
    TypeError: something else than a tensor. NotImplementedError: another dtype or layout.
    """
    _check_tensor("encode", "x", x)
    if not isinstance(codec, str):
        raise TypeError(f"longhaul.encode: codec must be a str, not {type(codec).__name__}")
    if not 0 <= operator.index(seed) < 2**64:
        raise ValueError(f"longhaul.encode: seed is {seed}: want 0 to {2**64 - 1}")
    return load_adapter().encode(x, codec, operator.index(seed))


def decode(frame: Tensor, out: Tensor | None = None) -> Tensor:
    """The tensor that a receiver gets from a frame of encode().

    frame: uint8 tensor [bytes]. out: a contiguous host tensor of as many elements, float32, bfloat16
    or float16, which is filled and returned; None: a new one [rows, cols] of the source's dtype.

    RuntimeError: the frame is damaged or not one, or its codec needs the frames before it.
    ValueError: `out` does not fit.
    """
    _check_tensor("decode", "frame", frame)
    if out is not None:
        _check_tensor("decode", "out", out)
    return load_adapter().decode(frame, out)


def _check_tensor(function, name, value):
    import torch

    if not isinstance(value, torch.Tensor):
        raise TypeError(f"longhaul.{function}: {name} must be a tensor, not {type(value).__name__}")
