# Types of what `import longhaul` offers; what each does, its units and errors are in the docstrings.
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from torch import Tensor
from torch.distributed import ProcessGroup, Work

__version__: str
__all__: list[str]

_Word = str | os.PathLike[str]

@dataclass(frozen=True)
class Options:
    forward: str = "none"
    backward: str = "none"
    by_tag: Mapping[int, str] = field(default_factory=dict)
    kinds: str = "ranks"
    min_elements: int = 4096
    collectives: str | Mapping[str, str] = "none"
    collective_way: str = "auto"
    site_size: int = 1
    seed: int = 0
    nmse_every: int = 0
    ef_slots: int = 1
    timeout: timedelta | None = None
    interface: str = ""
    peer_deadline: timedelta | None = None
    credit_bytes: int | None = None
    coder_threads: int | None = None
    shared_memory: bool = False
    ucx_environment: bool = False
    @classmethod
    def from_environment(cls, **fields: Any) -> Options: ...
    @classmethod
    def from_environment(cls, **fields: Any) -> Options: ...
    @property
    def lossless(self) -> bool: ...

@dataclass(frozen=True)
class Crossing:
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
    def bits_per_element(self) -> float: ...

@dataclass(frozen=True)
class Traffic:
    sent_bytes: int
    received_bytes: int
    sent_messages: int
    received_messages: int
    refused_messages: int
    refused_strangers: int
    silent_connections: int

@dataclass(frozen=True)
class Stats:
    crossings: list[Crossing]
    traffic: Traffic
    transport: str

class Lab:
    name: str
    def __init__(self, links: str = "", *, nodes: int | None = 2, **figures: Any) -> None: ...
    def __enter__(self) -> Lab: ...
    def __exit__(self, *_: object) -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[_Node]: ...
    def __getitem__(self, which: int | str) -> _Node: ...
    def open(self) -> Lab: ...
    def close(self) -> None: ...
    def run(self, argv: Sequence[_Word], *, check: bool = True, timeout: float | None = None,
            env: Mapping[str, str] | None = None, cwd: _Word | None = None,
            ) -> list[subprocess.CompletedProcess[str]]: ...
    def paths(self) -> dict[str, Any]: ...
    def probe(self, *, quick: bool = False) -> dict[str, Any]: ...
    def stats(self) -> dict[str, Any]: ...
    def set(self, path: str = "*", **figures: Any) -> None: ...

class _Node:
    name: str
    address: str
    def start(self, argv: Sequence[_Word], **options: Any) -> subprocess.Popen[Any]: ...
    def run(self, argv: Sequence[_Word], *, check: bool = True, timeout: float | None = None,
            env: Mapping[str, str] | None = None, cwd: _Word | None = None,
            input: str | None = None) -> subprocess.CompletedProcess[str]: ...

def activation_tag(channel: int = 0) -> int: ...
def gradient_tag(channel: int = 0) -> int: ...
def codecs() -> list[str]: ...
def encode(x: Tensor, codec: str, seed: int = 0) -> Tensor: ...
def decode(frame: Tensor, out: Tensor | None = None) -> Tensor: ...
def crossings(group: ProcessGroup | None = None) -> list[Crossing]: ...
def traffic(group: ProcessGroup | None = None) -> Traffic: ...
def transport(group: ProcessGroup | None = None) -> str: ...
def stats(group: ProcessGroup | None = None) -> Stats: ...
def recent_operations(group: ProcessGroup | None = None) -> str: ...
def isend_decoded(tensor: Tensor, dst: int | None = None, group: ProcessGroup | None = None,
                  tag: int = 0, group_dst: int | None = None) -> tuple[Work, Tensor]: ...
def send_decoded(tensor: Tensor, dst: int | None = None, group: ProcessGroup | None = None,
                 tag: int = 0, group_dst: int | None = None) -> Tensor: ...
def log(step: int | None = None, *, loss: float | None = None, tokens: int = 0,
        final: float | None = None, standard_error: float | None = None,
        final_on: float | None = None,
        group: ProcessGroup | None = None) -> None: ...
