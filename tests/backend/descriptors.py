"""Out of file descriptors: every rank gets one line that says how many are needed and how many may be
open, and no process is ended by a signal. With as many as that it runs."""

import os
import re
import subprocess
import sys

import launch

RANKS, LIMIT = 2, 24


def worker():
    import torch
    import torch.distributed as dist

    import longhaul  # noqa: F401

    try:
        dist.init_process_group("longhaul", timeout=launch.TIMEOUT)
    except RuntimeError as error:
        print(f"{type(error).__name__}: {str(error).splitlines()[0]}", flush=True)
        return
    x = torch.ones(3)
    dist.all_reduce(x)
    dist.barrier()
    dist.destroy_process_group()
    print(f"sum {x[0].item():.0f}", flush=True)


def said(limit):
    port = launch.free_port()
    ranks = [subprocess.Popen(["sh", "-c", f"ulimit -n {limit} && exec \"$@\"", "sh", sys.executable,
                               os.path.abspath(sys.argv[0])], text=True, stdout=subprocess.PIPE,
                              env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(RANKS),
                                   "LOCAL_RANK": str(rank), "OMP_NUM_THREADS": "1",
                                   "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)})
             for rank in range(RANKS)]
    lines = [rank.communicate(timeout=120)[0].strip() for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * RANKS, (limit, lines)
    return lines


def main():
    lines = said(LIMIT)
    print(lines, flush=True)
    needed = [re.search(r"(\d+) file descriptors are needed .* the limit is (\d+):", line)
              for line in lines]
    assert all(needed) and all("Error: " in line for line in lines), lines
    assert all(int(match[2]) == LIMIT < int(match[1]) for match in needed), lines
    # The rank that serves the store has more open. Room for files that Python reads meanwhile.
    enough = max(int(match[1]) for match in needed) + 8
    assert said(enough) == ["sum 2"] * RANKS


if "LOCAL_RANK" in os.environ:
    worker()
else:
    launch.check()
    main()
