"""What a process group of the backend "longhaul" can be told: pass it as pg_options."""

import math
import operator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Mapping, Optional, Union

_MAX_CODER_THREADS = 256
_COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather")
_WAYS = ("auto", "direct", "gather", "ring")


@dataclass(frozen=True)
class Options:
    """The default sends everything lossless. All ranks of a group must give equal codec options.

    forward: codec of activations: float tensors sent to a higher rank of the group, or by a stage
        of torch.distributed.pipelining to the stage after ("none": exact bytes).
    backward: codec of gradients: to a lower rank, or to the stage before.
    by_tag: codec by the tag of the send; wins over its kind.
    kinds: how a group knows the kind of a tensor whose tag does not name it (activation_tag(),
        gradient_tag(); stages of torch.distributed.pipelining name it by themselves). "ranks": by
        the order of ranks, an error between the first rank and the last of three or more. "tags":
        not at all, such a tensor is an error.
    min_elements: smaller tensors stay lossless; of a collective, what each rank brings.
    collectives: codec of the collectives of float tensors: one for all, or by name, of "all_reduce",
        "reduce_scatter" and "all_gather" (those not named stay exact). The first two for SUM and AVG
        alone. Every rank gets the same bits. Codecs without a state: no "+ef", "+ef21", "+mc", "aqsgd".
    collective_way: how encoded sums come about. "direct": each rank adds up its part and encodes the
        sum. "gather": each tensor is encoded once, and everybody adds up all. "ring": sums go round.
        "auto": gather between two sites, for topk and randk, and for a few kilobytes; else direct.
    site_size: ranks r with the same r // site_size are at one site: collectives with a codec send raw
        values within it, frames across. A divisor of the group's size.
    seed: of the codecs' rounding noise; equal seeds give equal bytes.
    nmse_every: n > 0: the sender decodes every n-th encoded tensor and records its error.
    ef_slots: how many states a codec that has one ("+ef", "+ef21", "aqsgd4") keeps per peer and
        tag; the same on every rank. Set it to the micro-batches of a step, times the tensors that
        a stage sends for one.
    timeout: of the group's operations. None: what new_group or init_process_group is given.
        DeviceMesh's backend_override has no other place for it.

    The rest concerns the process, whose groups share one connection to the network. The first group
    decides; None leaves it to the first group, and a later one that asks for something else is an
    error.

    interface: network interface that every byte must cross, for example "eth0". Empty: what the
        environment variable LONGHAUL_INTERFACE names; else lo where every rank of the group is on
        one host, otherwise the one interface besides lo that is up, or of several the one that
        leads to the store's host. longhaul.transport() says which, and why.
    peer_deadline: a peer silent for longer is dead (default 30 s), and nothing else makes it so but
        the end of its process. Must exceed round trip plus queueing; to ride outages out, 2.5 times
        the longest. datetime.timedelta.max: never; operations then end at their timeout.
    credit_bytes: bytes a sender may have under way per peer (default 64 MiB, at least 64 KiB); at
        least two bandwidth-delay products.
    coder_threads: threads that encode and decode tensors of hosts beside the one that moves bytes
        (default 2, 0 to 256; 0: that one does it itself). Bytes are the same with any number. Raise
        it where the link is faster than two of them; each wants a core.
    shared_memory: lets processes of one host exchange data past the network interface.
    ucx_environment: accepts variables UCX_* of the environment that could undo what is set here;
        otherwise they are an error that names them. Those of UCX's log pass in any case.
    """

    forward: str = "none"
    backward: str = "none"
    by_tag: Mapping[int, str] = field(default_factory=dict)
    kinds: str = "ranks"
    min_elements: int = 4096
    collectives: Union[str, Mapping[str, str]] = "none"
    collective_way: str = "auto"
    site_size: int = 1
    seed: int = 0
    nmse_every: int = 0
    ef_slots: int = 1
    timeout: Optional[timedelta] = None
    interface: str = ""
    peer_deadline: Optional[timedelta] = None
    credit_bytes: Optional[int] = None
    coder_threads: Optional[int] = None
    shared_memory: bool = False
    ucx_environment: bool = False

    def __post_init__(self):
        for name in ("forward", "backward", "kinds", "interface"):
            _check_type(name, getattr(self, name), str)
        for name in ("shared_memory", "ucx_environment"):
            _check_type(name, getattr(self, name), bool)
        _check_integer("min_elements", self.min_elements, 0, 2**63 - 1)
        _check_integer("site_size", self.site_size, 1, 2**31 - 1)
        _check_integer("seed", self.seed, 0, 2**64 - 1)
        _check_integer("nmse_every", self.nmse_every, 0, 2**31 - 1)
        _check_integer("ef_slots", self.ef_slots, 1, 2**31 - 1)
        if self.credit_bytes is not None:
            _check_integer("credit_bytes", self.credit_bytes, 64 << 10, 2**63 - 1)
        if self.coder_threads is not None:
            _check_integer("coder_threads", self.coder_threads, 0, _MAX_CODER_THREADS)
        for name in ("timeout", "peer_deadline"):
            if getattr(self, name) is not None:
                _check_duration(name, getattr(self, name))
        _check_type("by_tag", self.by_tag, Mapping)
        for tag, codec in self.by_tag.items():
            _check_integer("a tag of by_tag", tag, 0, 2**31 - 1)
            _check_type(f"by_tag[{tag}]", codec, str)
        self._check_collectives()
        _check_choice("kinds", self.kinds, ("ranks", "tags"))
        _check_choice("collective_way", self.collective_way, _WAYS)

    def _check_collectives(self):
        if isinstance(self.collectives, str):
            return
        if not isinstance(self.collectives, Mapping):
            raise _wrong_type("collectives", self.collectives, "a codec or a mapping of collectives to codecs")
        for name, codec in self.collectives.items():
            _check_choice("a name in collectives", name, _COLLECTIVES)
            _check_type(f"collectives['{name}']", codec, str)

    @property
    def _codec_of_collective(self):
        if isinstance(self.collectives, str):
            return dict.fromkeys(_COLLECTIVES, self.collectives)
        return {name: self.collectives.get(name, "none") for name in _COLLECTIVES}

    @classmethod
    def from_environment(cls, **fields: Any) -> "Options":
        """The codecs that LONGHAUL_FORWARD, LONGHAUL_BACKWARD, LONGHAUL_OUTER_CODEC and LONGHAUL_SEED name, as a default
        group without options takes them; `fields` win. For a group that a program makes itself.
        Lossless where they name none."""
        from longhaul import environment

        return environment.options(**fields) or cls(**fields)

    @property
    def _timeout(self):
        """Where DeviceMesh looks for it."""
        return self.timeout

    @property
    def lossless(self) -> bool:
        codecs = (self.forward, self.backward, *self.by_tag.values(), *self._codec_of_collective.values())
        return all(codec == "none" for codec in codecs)

    def native(self, adapter):
        """The same options as an object of the extension module `adapter`."""
        native = adapter.Options()
        native.set_codecs(self.forward, self.backward, dict(self.by_tag), self.min_elements,
                          self.kinds == "ranks")
        native.set_collectives(*self._codec_of_collective.values(), _WAYS.index(self.collective_way),
                               self.site_size)
        native.set_node(
            self.interface,
            _seconds(self.peer_deadline),
            self.credit_bytes,
            self.coder_threads,
            self.shared_memory,
            self.ucx_environment,
        )
        native.seed = self.seed
        native.nmse_every = self.nmse_every
        native.ef_slots = self.ef_slots
        return native


def _seconds(duration):
    if duration is None:
        return None
    return math.inf if duration == timedelta.max else duration.total_seconds()


def _wrong_type(name, value, wanted):
    return TypeError(f"longhaul.Options: {name} must be {wanted}, not {type(value).__name__}")


def _check_type(name, value, kind):
    if not isinstance(value, kind):
        wanted = {str: "a str", bool: "a bool", Mapping: "a mapping of tags to codecs"}[kind]
        raise _wrong_type(name, value, wanted)


def _check_choice(name, value, choices):
    if value not in choices:
        wanted = ", ".join(f"'{choice}'" for choice in choices[:-1]) + f" or '{choices[-1]}'"
        raise ValueError(f"longhaul.Options: {name} is '{value}': want {wanted}")


def _check_integer(name, value, least, most):
    if isinstance(value, bool):
        raise _wrong_type(name, value, "an int")
    try:
        number = operator.index(value)
    except TypeError:
        raise _wrong_type(name, value, "an int") from None
    if not least <= number <= most:
        raise ValueError(f"longhaul.Options: {name} is {number}: want {least} to {most}")


def _check_duration(name, value):
    if not isinstance(value, timedelta):
        raise _wrong_type(name, value, "a datetime.timedelta")
    if value < timedelta(milliseconds=1):
        raise ValueError(f"longhaul.Options: {name} is {value}: want a millisecond or more")
