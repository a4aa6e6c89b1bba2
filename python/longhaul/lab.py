"""Labs of shaped links for tests and notebooks: `longhaul net` behind a context manager."""

from __future__ import annotations

import json
import os
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from longhaul.starting import command

_Word = str | os.PathLike[str]  # of a command
_FIGURES = ("rate", "delay", "rtt", "jitter", "loss", "queue", "aqm", "ecn", "emulator", "seed",
            "congestion_control")
_UP = "longhaul: up"
_MASTER_PORT = 29500  # nobody else is in these network namespaces
_GRACE_S = 5

# Builds the lab, says so, and takes it down when standard input ends: closed by close(), or by the
# kernel when the process that opened the lab is gone, however it went. Where that is before the lab
# is up nobody reads, and SIGPIPE must not end this before the lab is down. (Handled, not ignored:
# programs in the lab would inherit that.)
_KEEPER = f"""
trap : PIPE
command=$1; name=$2; shift 2
if "$command" net up "$@" --name "$name" </dev/null; then
  echo '{_UP}'
  cat >/dev/null
fi
exec "$command" net down "$name" >/dev/null 2>&1
"""


class Node:
    """One node of a Lab: a network namespace with one interface, net0."""

    def __init__(self, lab, name, address):
        self._lab = lab
        self.name = name
        self.address = address  # IPv4, in digits

    def __repr__(self):
        return f"Node({self.name!r}, {self.address!r})"

    def start(self, argv: Sequence[_Word], **options: Any) -> subprocess.Popen[Any]:
        """subprocess.Popen of the program `argv` (a list) in this node, with your environment and
        folder. `options` are Popen's. SIGTERM is passed on to the program, and killing what is
        returned kills it."""
        return subprocess.Popen(self._argv(argv), **options)

    def run(self, argv: Sequence[_Word], *, check: bool = True, timeout: float | None = None,
            env: Mapping[str, str] | None = None, cwd: _Word | None = None,
            input: str | None = None) -> subprocess.CompletedProcess[str]:
        """Runs the program `argv` (a list) in this node to its end. Returns a
        subprocess.CompletedProcess with stdout and stderr as text.

        check: a status other than 0 raises subprocess.CalledProcessError. timeout: seconds, then it
        is killed and subprocess.TimeoutExpired raised. env: replaces your environment.
        """
        return subprocess.run(self._argv(argv), check=check, timeout=timeout, env=env, cwd=cwd,
                              input=input, text=True, capture_output=True)

    def _argv(self, argv):
        return self._lab._net("exec", f"{self._lab.name}/{self.name}", "--", *_words(argv))


class Lab:
    """Nodes joined by links of a wide-area network, on this machine. ::

        with longhaul.Lab("continental-us", nodes=2) as lab:
            print(lab[0].run(["ping", "-c", "3", lab[1].name]).stdout)
            results = lab.run([sys.executable, "train.py"])     # in every node, as RANK 0, 1

    links: a profile ("continental-us"), regions ("aws:us-east-1,eu-west-1") or a topology file
        (docs/net-lab.md). "": only the figures.
    nodes: of a profile, 2 to 26; they are named a, b, ... None: as many as `links` says.
    figures: rate="50mbit", rtt="40ms", delay="20ms", jitter="2ms", loss="1%", queue="100p",
        aqm="codel", ecn="on" of every path; emulator="tap", seed=1, congestion_control="bbr".

    The lab is gone with the `with` block, by close(), and when this process ends, also by kill -9,
    and with it every program in it. (A child made by os.fork keeps it up: it holds the same pipe.)
    It can be looked at from outside meanwhile: `longhaul net probe NAME`, lab.name says which.

    Errors: RuntimeError with the command's own line where the lab cannot be built; TypeError for a
    figure that there is not; FileNotFoundError without the command `longhaul`.
    """

    def __init__(self, links: str = "", *, nodes: int | None = 2, **figures: Any) -> None:
        for figure in figures:
            if figure not in _FIGURES:
                raise TypeError(f"longhaul.Lab: no figure '{figure}': there are {', '.join(_FIGURES)}")
        self.name = f"py-{uuid.uuid4().hex[:12]}"
        self._options = [links] if links else []
        if nodes is not None:
            self._options.append(f"--nodes={nodes}")
        self._options += [f"--{k.replace('_', '-')}={v}" for k, v in figures.items()]
        self._keeper = None
        self._nodes = []

    def __enter__(self) -> Lab:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes)

    def __getitem__(self, which: int | str) -> Node:
        """A Node by its number or its name. IndexError, KeyError."""
        if not isinstance(which, str):
            return self._nodes[which]
        for node in self._nodes:
            if node.name == which:
                return node
        raise KeyError(f"longhaul.Lab: no node '{which}': there are "
                       f"{', '.join(node.name for node in self._nodes)}")

    def open(self) -> Lab:
        """Builds the lab; what `with` does. Returns it."""
        if self._keeper is not None:
            raise RuntimeError("longhaul.Lab: it is open already")
        # A session of its own: ^C is for the program, which then closes the lab.
        self._keeper = subprocess.Popen(
            ["sh", "-c", _KEEPER, "sh", command(), self.name, *self._options], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True)
        said = []
        for line in self._keeper.stdout:
            if line.strip() == _UP:
                break
            said.append(line.strip())
        else:
            self.close()
            raise RuntimeError(f"longhaul.Lab: {' '.join(said) or 'the lab was not built'}")
        try:
            told = self.paths()
        except BaseException:
            self.close()
            raise
        self._nodes = [Node(self, node["name"], node["address"]) for node in told["nodes"]]
        return self

    def close(self) -> None:
        """Ends the lab and every program in it. Does nothing where it is closed."""
        if self._keeper is None:
            return
        keeper, self._keeper, self._nodes = self._keeper, None, []
        keeper.stdin.close()
        keeper.stdout.close()
        keeper.wait()

    def run(self, argv: Sequence[_Word], *, check: bool = True, timeout: float | None = None,
            env: Mapping[str, str] | None = None, cwd: _Word | None = None,
            ) -> list[subprocess.CompletedProcess[str]]:
        """Runs the program `argv` (a list) in every node at once, with RANK, WORLD_SIZE, LOCAL_RANK,
        MASTER_ADDR and MASTER_PORT as torchrun sets them. Returns a list of
        subprocess.CompletedProcess by node, with stdout and stderr as text.

        The first that ends with another status than 0 ends the others. check, timeout, env, cwd: as
        in Node.run.
        """
        running = []
        for rank, node in enumerate(self._nodes):
            own = {**(os.environ if env is None else env), "RANK": str(rank), "LOCAL_RANK": "0",
                   "WORLD_SIZE": str(len(self)), "MASTER_ADDR": self._nodes[0].address,
                   "MASTER_PORT": str(_MASTER_PORT)}
            running.append(node.start(argv, env=own, cwd=cwd, text=True, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        with ThreadPoolExecutor(max(1, len(running))) as readers:
            said = [readers.submit(process.communicate) for process in running]
            first = _await_all(running, timeout)
            outputs = [one.result() for one in said]
        done = [subprocess.CompletedProcess(process.args, process.returncode, *output)
                for process, output in zip(running, outputs)]
        if first is None:
            raise subprocess.TimeoutExpired(list(argv), timeout)
        if check:
            done[first].check_returncode()
        return done

    def paths(self) -> dict[str, Any]:
        """What `longhaul net list LAB --json` says: a dict with "nodes", "paths" and the emulator."""
        return self._json("list", self.name)

    def probe(self, *, quick: bool = False) -> dict[str, Any]:
        """Measures every path against its figures: a dict as of `longhaul net probe --json`. quick:
        round trips only."""
        return self._json("probe", self.name, *(["--quick"] if quick else []), statuses=(0, 1))

    def stats(self) -> dict[str, Any]:
        """What every path carried, dropped and holds: a dict as of `longhaul net stats --json`."""
        return self._json("stats", self.name)

    def set(self, path: str = "*", **figures: Any) -> None:
        """Changes paths while traffic flows: lab.set("a>b", loss="1%", rate="50mbit"). "a<>b" is both
        directions, "*" every path. RuntimeError: the command's line on a figure that is none."""
        self._text("set", self.name, path, *(f"{k}={v}" for k, v in figures.items()))

    def _net(self, *words):
        if self._keeper is None:
            raise RuntimeError("longhaul.Lab: it is not open: use it in 'with', or call open()")
        return [command(), "net", *words]

    def _text(self, *words, statuses=(0,)):
        done = subprocess.run(self._net(*words), text=True, capture_output=True)
        if done.returncode not in statuses:
            raise RuntimeError(f"longhaul.Lab: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def _json(self, *words, statuses=(0,)):
        return json.loads(self._text(*words, "--json", statuses=statuses))


def _words(argv):
    if isinstance(argv, (str, bytes)):
        raise TypeError(f"longhaul.Lab: a program is a list of words, not {argv!r}")
    return [os.fspath(word) for word in argv]


def _await_all(running, timeout):
    """The number of the one that failed first, or any; None: they were not done in time."""
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        for number, process in enumerate(running):
            if process.poll():
                _end(running)
                return number
        if all(process.returncode == 0 for process in running):
            return 0
        if deadline is not None and time.monotonic() > deadline:
            _end(running)
            return None
        time.sleep(0.02)


def _end(running):
    for process in running:
        if process.poll() is None:
            process.terminate()
    for process in running:
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
