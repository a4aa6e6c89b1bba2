"""Classes of a user's file that the engine calls: outer.algorithm = "python:FILE:CLASS" (docs/outer-python.md).

Each of the engine's processes starts this module once. On standard input it has a socket: a request is a line of JSON, so is
its answer. Tensors lie in memory that both have mapped.
"""
import ctypes
import importlib.util
import json
import mmap
import os
import signal
import socket
import sys
import traceback
from types import ModuleType, SimpleNamespace

try:
    import torch
except ImportError as missing:
    raise SystemExit(f"{sys.executable}: {missing}; name an interpreter that has torch in LONGHAUL_PYTHON") from missing

_PR_SET_PDEATHSIG = 1


class Refusal(Exception):
    """What a class lacks or returned, in one line."""


def _last_of(failure: BaseException, path: str) -> str:
    """Place and text of a failure: the last line of the user's file that it passed through."""
    at = f"{path}:"
    if isinstance(failure, SyntaxError) and failure.lineno is not None:
        at = f"{failure.filename}:{failure.lineno}:"
    for frame in traceback.extract_tb(failure.__traceback__):
        if os.path.abspath(frame.filename) == os.path.abspath(path):
            at = f"{path}:{frame.lineno}, {frame.name}:"
    text = " ".join(str(failure.msg if isinstance(failure, SyntaxError) else failure).split())
    return f"{at} {type(failure).__name__}" + (f": {text}" if text else "")


class Classes:
    """The classes of the files, each file read once."""

    def __init__(self):
        self._modules: dict[str, ModuleType] = {}

    def find(self, path: str, name: str) -> type:
        if path not in self._modules:
            spec = importlib.util.spec_from_file_location(f"longhaul_user_{len(self._modules)}", path)
            if spec is None or spec.loader is None:
                raise Refusal(f"{path} is no Python file: its name does not end in .py")
            module = importlib.util.module_from_spec(spec)
            sys.path.insert(0, os.path.dirname(os.path.abspath(path)))  # of what it imports
            spec.loader.exec_module(module)
            self._modules[path] = module
        found = getattr(self._modules[path], name, None)
        if not isinstance(found, type):
            raise Refusal(f"{path} has no class {name}")
        for hook in ("send", "apply"):
            if not callable(getattr(found, hook, None)):
                raise Refusal(f"class {name} of {path} has no method {hook}")
        return found


def _state_of(found: type, path: str) -> list[str]:
    names = getattr(found, "state", ())
    taken = {"theta_start", "codec_state", "average", "left_out"}
    if not isinstance(names, tuple) or len(set(names)) != len(names) or not all(
            isinstance(name, str) and name.isidentifier() and name not in taken for name in names):
        raise Refusal(f"class {found.__name__} of {path}: state is {names!r}; want a tuple of names, each once, none of them "
                      + ", ".join(sorted(taken)))
    return list(names)


class Rank:
    """One stage of one group: its object of the user's class, and what both sides see."""

    def __init__(self, memory: int, request: dict, found: type):
        self.path = request["file"]
        self.name = found.__name__
        n = self.elements = request["elements"]

        def view(at: int) -> torch.Tensor:
            return torch.frombuffer(mmap.mmap(memory, max(4 * n, 1), offset=at), dtype=torch.float32, count=n)

        self.crossing = view(request["crossing"])
        self.seen = SimpleNamespace(**request["rank"], parameters=view(request["parameters"]), start=view(request["start"]),
                                    state={name: view(at) for name, at in request["state"].items()})
        self.object = found(self.seen)

    def send(self, step: int) -> None:
        usable = bool(torch.isfinite(self.seen.parameters).all())  # of a group that is broken, others leave out what it sends
        self.crossing.copy_(self._checked("send", self.object.send(step), usable))

    def apply(self, step: int, lr: float) -> None:
        self.seen.parameters.copy_(self._checked("apply", self.object.apply(step, self.crossing, lr), True))

    def _checked(self, hook: str, x: object, usable: bool) -> torch.Tensor:
        want = f"want a tensor of shape [{self.elements}], torch.float32"
        if not isinstance(x, torch.Tensor):
            raise Refusal(f"{self.path}: {self.name}.{hook} returned {type(x).__name__}; {want}")
        if x.dtype != torch.float32 or tuple(x.shape) != (self.elements,):
            raise Refusal(f"{self.path}: {self.name}.{hook} returned a tensor of shape {list(x.shape)}, {x.dtype}; {want}")
        if usable and not bool(torch.isfinite(x).all()):
            raise Refusal(f"{self.path}: {self.name}.{hook} returned NaN or Inf")
        return x


class Server:
    """Answers requests one by one."""

    def __init__(self, memory: int):
        self._memory = memory
        self._classes = Classes()
        self._ranks: dict[int, Rank] = {}

    def answer(self, request: dict) -> dict:
        what, path = request["do"], request.get("file")
        rank = self._ranks.get(request.get("id"))
        try:
            with torch.no_grad():
                return self._do(what, request, rank)
        except Refusal as refusal:
            return {"error": str(refusal)}
        except Exception as failure:  # whatever the user's code raises
            return {"error": _last_of(failure, path or (rank.path if rank else __file__))}

    def _do(self, what: str, request: dict, rank: Rank | None) -> dict:
        if what == "begin":
            torch.set_num_threads(request["threads"])
        elif what == "load":
            found = self._classes.find(request["file"], request["class"])
            return {"state": _state_of(found, request["file"])}
        elif what == "new":
            found = self._classes.find(request["file"], request["class"])
            self._ranks[request["id"]] = Rank(self._memory, request, found)
        elif what == "send":
            rank.send(request["step"])
        elif what == "apply":
            rank.apply(request["step"], request["lr"])
        else:
            self._ranks.pop(request["id"], None)
        return {}


def main(words: list[str]) -> int:
    memory, parent = int(words[0]), int(words[1])
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return 1
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the engine ends this process
    os.set_inheritable(memory, False)
    with socket.socket(fileno=os.dup(0)) as channel, open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)  # a user's code reads no requests
        sys.stdout.reconfigure(line_buffering=True)
        server = Server(memory)
        for line in channel.makefile("rb"):
            channel.sendall(json.dumps(server.answer(json.loads(line))).encode() + b"\n")
    return 0
