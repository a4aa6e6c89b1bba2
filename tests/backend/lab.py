"""longhaul.Lab: programs in nodes behind shaped links, and nothing left of them however it ends."""

import json
import os
import signal
import subprocess
import sys
import time

import launch

import longhaul.lab  # with longhaul and torch, for the processes that are forked below too

SLOW = 40  # ms, one way


def labs():
    listed = subprocess.run([longhaul.lab.command(), "net", "list", "--json"], text=True,
                            stdout=subprocess.PIPE, check=True)
    return [lab["name"] for lab in json.loads(listed.stdout)["labs"]]


def processes_of(mark):
    """That have the word `mark` in their command line."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")
        except OSError:
            continue
        if mark.encode() in words and int(pid) != os.getpid():
            found.append(int(pid))
    return found


def gone(mark, lab, within=60):
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        if lab not in labs() and not processes_of(mark):
            return True
        time.sleep(0.1)
    return False


def try_lab():
    """Ends the program as skipped where no lab can be built."""
    try:
        with longhaul.Lab("regional"):
            pass
    except RuntimeError as error:
        launch.skip(str(error))


def programs_run_in_nodes():
    with longhaul.Lab(rate="100mbit", delay=f"{SLOW}ms", nodes=3) as lab:
        name = lab.name
        assert name in labs() and len(lab) == 3 and [node.name for node in lab] == ["a", "b", "c"]
        assert lab["c"].address == lab[2].address == lab[-1].address
        assert lab[1].run(["sh", "-c", "echo $LONGHAUL_NODE"]).stdout == f"{name}/b\n"
        # The link is there: a round trip is never shorter than its delays.
        ping = lab[0].run(["ping", "-c", "1", "-n", lab[1].address]).stdout
        assert float(ping.split("time=")[1].split()[0]) >= 2 * SLOW, ping
        assert lab.paths()["paths"][0]["delay_ms"] == SLOW
        lab.set("a>b", loss="1%")
        assert {(p["from"], p["to"]) for p in lab.paths()["paths"] if p["loss"]} == {("a", "b")}
        ranks = lab.run(["sh", "-c", "echo $RANK $WORLD_SIZE $LOCAL_RANK $MASTER_ADDR"])
        assert [r.stdout for r in ranks] == [f"{i} 3 0 {lab[0].address}\n" for i in range(3)], ranks
        # The first that fails ends the others, and is the one that is named.
        try:
            lab.run(["sh", "-c", "if [ $RANK = 1 ]; then echo no >&2; exit 7; fi; exec sleep 4711"])
            raise AssertionError("rank 1 failed")
        except subprocess.CalledProcessError as error:
            assert error.returncode == 7 and error.stderr == "no\n", error
        launch.expect_error(subprocess.TimeoutExpired, ["sleep"], lambda: lab.run(["sleep", "4711"], timeout=0.2))
        launch.expect_error(subprocess.CalledProcessError, ["status 3"],
                            lambda: lab[0].run(["sh", "-c", "exit 3"]))
        assert lab[0].run(["nosuch"], check=False).returncode == 127
        lab[0].start(["sleep", "4711"])  # still there at the end
    assert gone("4711", name)


def an_exception_takes_it_along():
    try:
        with longhaul.Lab("regional") as lab:
            lab[1].start(["sleep", "4712"])
            raise KeyError("of the program")
    except KeyError:
        pass
    assert gone("4712", lab.name)


def killed(by, early):
    """A process with an open lab, or one that is about to be built, and a program in it, is killed."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        lab = longhaul.Lab("regional")
        os.write(write, f"{lab.name}\n".encode())
        lab.open()
        lab[0].start(["sleep", "4713"])
        os.write(write, b"open\n")
        time.sleep(600)
    os.close(write)
    with os.fdopen(read) as said:
        name = said.readline().strip()
        assert early or said.readline() == "open\n"
    os.kill(pid, by)
    os.waitpid(pid, 0)
    assert gone("4713", name), (name, labs(), processes_of("4713"))


def wrong_ones_are_one_line():
    one = launch.expect_error
    one(TypeError, ["no figure 'speed'", "rate"], lambda: longhaul.Lab(speed=3))
    one(RuntimeError, ["nowhere"], lambda: longhaul.Lab("nowhere").open())
    one(RuntimeError, ["nodes"], lambda: longhaul.Lab("regional", nodes=1).open())
    one(RuntimeError, ["not open"], lambda: longhaul.Lab("regional").probe())
    with longhaul.Lab("regional") as lab:
        one(TypeError, ["list of words", "'ls'"], lambda: lab[0].run("ls"))
        one(KeyError, ["no node 'z'", "a, b"], lambda: lab["z"])
        one(RuntimeError, ["open already"], lab.open)
        one(RuntimeError, ["loss"], lambda: lab.set("a>b", loss=3))


launch.check()
try_lab()
programs_run_in_nodes()
print("ok programs", flush=True)
an_exception_takes_it_along()
wrong_ones_are_one_line()
print("ok errors", flush=True)
for by, early in ((signal.SIGKILL, False), (signal.SIGKILL, True), (signal.SIGKILL, True), (signal.SIGTERM, False)):
    killed(by, early)
print("ok killed", flush=True)
# The one whose owner was killed early may have been listed for a moment after that.
deadline = time.monotonic() + 60
while left := [lab for lab in labs() if lab.startswith("py-")]:
    assert time.monotonic() < deadline, left
    time.sleep(0.1)
