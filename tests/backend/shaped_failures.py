"""What fails between six ranks behind the links of `continental-us`, one failure after the other in one job: whoever
waits for a rank that is gone is told in time, and groups without it go on.

The ranks are forked from this program into the nodes of a lab, so that it can stop and kill them; lines on their
standard input and output say when."""

import contextlib
import datetime
import os
import signal
import subprocess
import time

import forked
import hosts
import launch

RANKS = 6
DEADLINE_S = 6
PAUSE_S = 2  # within 4/5 of the deadline
ELEMENTS = 1 << 18


class Job:
    """One rank's groups."""

    def __init__(self):
        import torch
        import torch.distributed as dist

        import longhaul
        self.torch, self.dist, self.longhaul = torch, dist, longhaul
        self.rank = int(os.environ["RANK"])
        dist.init_process_group("longhaul", timeout=launch.TIMEOUT, pg_options=longhaul.Options(
            peer_deadline=datetime.timedelta(seconds=DEADLINE_S), credit_bytes=1 << 20))
        self.store = dist.distributed_c10d._get_default_store()
        self.others = self.group([0, 1])
        self.half = self.group([0, 1, 4, 5])
        self.coded = self.group(range(RANKS), collectives="int8-b64", collective_way="direct")
        self.stay = self.group([0, 1, 2, 3])

    def group(self, ranks, **options):
        return self.dist.new_group(list(ranks), backend="longhaul", timeout=launch.TIMEOUT,
                                   pg_options=self.longhaul.Options(**options))

    def sum_is_right(self, group, ranks):
        x = self.torch.full((ELEMENTS,), float(self.rank + 1))
        self.dist.all_reduce(x, group=group)
        assert bool((x == sum(r + 1 for r in ranks)).all()), x


def lost(words, act):
    """It ends by the loss of a rank, seen here or told by another rank of a collective; not by the
    operation's own timeout, which says so."""
    try:
        act()
    except RuntimeError as error:
        said = str(error)
        assert "within the timeout" not in said and all(word in said for word in words), (words, said)
        return
    raise AssertionError(f"no error, wanted one with {words}")


def damaged_segments():
    """That the kernel of this node has thrown away for their checksum."""
    with open("/proc/net/snmp") as counters:
        names, values = [line.split() for line in counters if line.startswith("Tcp:")]
    return int(values[names.index("InCsumErrors")])


def say(word):
    """To the program that forked this rank, which answers when it may go on."""
    print(word, flush=True)
    return input()


def worker():
    job = Job()
    rank, dist, torch = job.rank, job.dist, job.torch

    # Other options: no group on any rank, those that are there go on.
    launch.expect_error(ValueError, ["options differ", "forward=int8-b64", "forward=none"],
                        lambda: job.group(range(RANKS), forward="int8-b64" if rank == 4 else "none"))
    job.sum_is_right(None, range(RANKS))

    # A slow reader: 8 MB and 1 MB of credit. The last message goes first, because it is asked for.
    tensors = [torch.full((ELEMENTS,), float(i)) for i in range(8)]
    if rank == 2:
        sends = [dist.isend(x, 3, tag=i) for i, x in enumerate(tensors)]
        job.store.wait(["read"], launch.TIMEOUT)
        assert not all(send.is_completed() for send in sends)
        job.store.set("sent", "")
        for send in sends:
            send.wait()
    elif rank in (0, 1):
        job.sum_is_right(job.others, (0, 1))
        job.store.set("read", "")
    elif rank == 3:
        job.store.wait(["sent"], launch.TIMEOUT)
        for i in reversed(range(8)):
            x = torch.empty(ELEMENTS)
            dist.recv(x, 2, tag=i)
            assert torch.equal(x, tensors[i]), i
    job.sum_is_right(None, range(RANKS))

    say("damage")
    job.sum_is_right(None, range(RANKS))
    assert damaged_segments() > 0

    say("pause")
    x = torch.full((ELEMENTS,), float(rank + 1))
    coded = dist.all_reduce(x, group=job.coded, async_op=True)
    job.sum_is_right(None, range(RANKS))
    coded.wait()
    assert (x - 21).abs().max() < 0.21, x

    # Half of a group goes: rank 4 by itself, rank 5 is killed in the middle of two collectives.
    x = torch.ones(1 << 22)
    if rank >= 4:
        say("half")
        if rank == 5:
            dist.all_reduce(x.clone(), group=job.coded, async_op=True)
            dist.all_reduce(x, group=job.half, async_op=True)
            say("kill")
        return
    say("half")
    y = torch.empty(4)
    works = [dist.all_reduce(x.clone(), group=job.coded, async_op=True), dist.irecv(y, 5), dist.irecv(y, 4)]
    if rank < 2:
        works.append(dist.all_reduce(x, group=job.half, async_op=True))
    job.sum_is_right(job.stay, range(4))
    for work, words in zip(works, ("allreduce", "rank 5", "rank 4", "allreduce")):
        lost([words], work.wait)
    lost(["rank 4"], lambda: dist.send(y, 4))
    job.sum_is_right(job.stay, range(4))

    # Rank 2 is stopped, rank 3 cut off, both for longer than the deadline.
    say("lose")
    if rank < 2:
        y, big = torch.empty(4), torch.ones(1 << 22)
        works = [(2, dist.irecv(y, 2)), (3, dist.irecv(y, 3)), (2, dist.isend(big, 2)), (3, dist.isend(big, 3))]
        summed = dist.all_reduce(big, group=job.stay, async_op=True)
        over = torch.zeros(1)
        while not over:  # on both
            over = torch.tensor([float(all(work.is_completed() for _, work in works))])
            dist.all_reduce(over, op=dist.ReduceOp.MIN, group=job.others)
        for peer, work in works:
            lost([f"rank {peer}", f"for the deadline of {DEADLINE_S}s"], work.wait)
        lost(["allreduce"], summed.wait)
        job.sum_is_right(job.others, (0, 1))
    else:
        y = torch.empty(4)
        lost(["rank 0"], lambda: dist.recv(y, 0))
        lost(["rank 1"], lambda: dist.recv(y, 1))
    say("done")
    os._exit(0)  # the store's rank and the others are not to wait for those who are cut off


def node_process(node):
    """Starts a process in `node`. Returns it, and what runs there by its number out here."""
    started = node.start(["sh", "-c", "echo in; exec sleep infinity"], stdout=subprocess.PIPE, text=True)
    started.stdout.readline()
    pid, here = started.pid, os.readlink("/proc/self/ns/net")
    while os.readlink(f"/proc/{pid}/ns/net") == here:
        with open(f"/proc/{pid}/task/{pid}/children") as children:
            pid = int(children.read().split()[0])
    return started, pid


def run(lab):
    environment = {**os.environ, "WORLD_SIZE": str(RANKS), "MASTER_ADDR": lab[0].address, "MASTER_PORT": "29500"}
    nodes = [node_process(node) for node in lab]
    ranks = [forked.Forked(worker, {**environment, "RANK": str(rank)}, pid) for rank, (_, pid) in enumerate(nodes)]

    def await_word(word, of=range(RANKS)):
        for rank in of:
            line = ranks[rank].stdout.readline()
            assert line == f"{word}\n", (rank, line)

    def go_on(of=range(RANKS)):
        for rank in of:
            ranks[rank].stdin.write("\n")
            ranks[rank].stdin.flush()

    begun = time.monotonic()

    def passed(what):
        print(f"ok {what}, {time.monotonic() - begun:.1f} s", flush=True)

    try:
        await_word("damage")
        passed("other options, slow reader")
        lab.set("*", corrupt="2%")
        go_on()
        await_word("pause")
        lab.set("*", corrupt="0")
        passed("bytes that change")

        lab.set("e<>*", carrier="down")
        os.kill(ranks[5].pid, signal.SIGSTOP)
        go_on()
        time.sleep(PAUSE_S)
        lab.set("e<>*", carrier="up")
        os.kill(ranks[5].pid, signal.SIGCONT)
        await_word("half")
        passed("cut and back, stopped and on")

        go_on()
        await_word("kill", [5])
        os.kill(ranks[5].pid, signal.SIGKILL)
        await_word("lose", range(4))
        assert ranks[4].wait() == 0 and ranks[5].wait() == -signal.SIGKILL
        passed("half the group left, one of it killed")

        os.kill(ranks[2].pid, signal.SIGSTOP)
        lab.set("d<>*", carrier="down")
        go_on(range(4))
        await_word("done", (0, 1, 3))
        os.kill(ranks[2].pid, signal.SIGCONT)
        await_word("done", [2])
        go_on(range(4))
        assert [ranks[rank].wait() for rank in range(4)] == [0] * 4
        passed("stopped and cut off for good")
    finally:
        for process in [*ranks, *(started for started, _ in nodes)]:
            process.kill()
            process.wait()


launch.check()
hosts.check()
import longhaul  # noqa: E402  with torch, for all ranks; starts no thread

lab = longhaul.Lab("continental-us", nodes=RANKS)
try:
    lab.open()
except RuntimeError as error:
    launch.skip(str(error))
with contextlib.closing(lab):
    run(lab)
