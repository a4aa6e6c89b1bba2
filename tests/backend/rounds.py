"""The default group made and destroyed 30 times in one program, with 2 and 4 ranks: without an
agent, where rank 0 closes the store at the end of each round while the others are on their way to
the next, and under torchrun, whose store stays. Nothing is left behind: descriptors and threads are
counted."""

import os
import subprocess
import sys
import time

import forked
import launch

ROUNDS = 30
SETTLED = 5  # by then everything that a process opens once is open


def count():
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


def worker():
    import torch
    import torch.distributed as dist

    before = None
    for turn in range(ROUNDS):
        rank, size = launch.init()
        x = torch.full((3,), rank + turn)
        dist.all_reduce(x)
        assert x.tolist() == [turn * size + size * (size - 1) // 2] * 3, (turn, x)
        if turn % 10 == 0:  # a second group has a round of its own in the store
            group = dist.new_group(backend="longhaul")
            dist.barrier(group=group)
        if turn % 4 == 1 and rank == 0:  # the others are long on their way to the next round
            time.sleep(0.05)
        if turn % 4 == 2 and rank == size - 1:
            time.sleep(0.05)
        dist.destroy_process_group()
        if turn == SETTLED:
            before = count()
    after = count()
    # The store's and the last connections may still be closing: a few, not one per round.
    grown = [late - early for early, late in zip(before, after)]
    assert all(n < (ROUNDS - SETTLED) // 3 for n in grown), f"fds, threads {before} -> {after}"
    print(f"rank {rank}: {ROUNDS} rounds, fds and threads {before} -> {after}", flush=True)


def without_agent(size):
    environment = {**os.environ, "WORLD_SIZE": str(size),
                   "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(launch.free_port())}
    return [forked.Forked(worker, {**environment, "RANK": str(rank)}) for rank in range(size)]


def with_agent(size):
    return [subprocess.Popen([sys.executable, "-m", "torch.distributed.run", "--standalone",
                              f"--nproc-per-node={size}", __file__],
                             env={**os.environ, "ROUNDS_WORKER": "1"})]


def main():
    launch.check()
    import longhaul  # noqa: F401  with torch, for the ranks without an agent; starts no thread

    # All at once: they wait more than they work.
    started = {(start.__name__, size): start(size)
               for size in (2, 4) for start in (without_agent, with_agent)}
    codes = {name: [process.wait(timeout=560) for process in processes]
             for name, processes in started.items()}
    assert not any(code for of in codes.values() for code in of), codes


worker() if "ROUNDS_WORKER" in os.environ else main()
