"""Times every operation of the backend "longhaul" beside gloo's, in pairs of one run, in the same processes.

usage: backend_pairs.py [--ranks N] [--rounds R] [--operation NAME]... [--bytes N]...      over the interface lo
       backend_pairs.py boundary [--mb 16] [--rounds R]                   as a program of `longhaul launch -n 2`

Each round times both backends one after the other, in turn first, until the last rank has ended, through a wait of
all by gloo. A row has the medians over rounds, the ratio longhaul / gloo and its 95 % interval (that of a median, from
the ordered ratios of the pairs), and the processor's seconds of all ranks likewise. A ratio is "slower" where its whole
interval lies above 1.05.

`boundary` sends a bfloat16 tensor from rank 0 to rank 1 and waits for one byte back: by gloo, raw, and by the default
pair's forward codec.
"""
import argparse
import datetime
import math
import os
import socket
import statistics
import time

import torch
import torch.distributed as dist

import longhaul

TIMEOUT = datetime.timedelta(seconds=120)
SIZES = [1, 1 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20]


def median_interval(values, level=0.95):
    """The ordered values between which the median lies with at least `level`; all of them where they are too few."""
    ordered = sorted(values)
    n = len(ordered)
    outside, k = 0.0, 0
    while k < n // 2 and 2 * (outside + math.comb(n, k) / 2 ** n) <= 1 - level:
        outside += math.comb(n, k) / 2 ** n
        k += 1
    low = max(k - 1, 0)
    return ordered[low], ordered[n - 1 - low]


def operations(rank, ranks):
    """{name: make}, where make(group, bytes) gives the call to be timed. Bytes are of the tensor each rank brings."""
    def floats(size):
        return torch.ones(max(1, size // 4))

    def point_to_point(group, size):
        x = torch.ones(size, dtype=torch.uint8)
        return (lambda: dist.send(x, 1, group=group)) if rank == 0 else \
               (lambda: dist.recv(x, 0, group=group)) if rank == 1 else lambda: None

    def all_reduce(group, size):
        x = floats(size) * 0
        return lambda: dist.all_reduce(x, group=group)

    def broadcast(group, size):
        x = floats(size)
        return lambda: dist.broadcast(x, 0, group=group)

    def reduce(group, size):
        x = floats(size) * 0
        return lambda: dist.reduce(x, 0, group=group)

    def all_gather(group, size):
        x, out = floats(size), floats(size).repeat(ranks)
        return lambda: dist.all_gather_into_tensor(out, x, group=group)

    def reduce_scatter(group, size):
        x = floats(size).repeat(ranks)
        out = floats(size)
        return lambda: dist.reduce_scatter_tensor(out, x, group=group)

    def all_to_all(group, size):
        x = torch.ones(max(1, size // 4 // ranks) * ranks)
        out = torch.empty_like(x)
        return lambda: dist.all_to_all_single(out, x, group=group)

    def gather(group, size):
        x = floats(size)
        outs = [torch.empty_like(x) for _ in range(ranks)] if rank == 0 else None
        return lambda: dist.gather(x, outs, 0, group=group)

    def scatter(group, size):
        x = floats(size)
        ins = [x.clone() for _ in range(ranks)] if rank == 0 else None
        return lambda: dist.scatter(x, ins, 0, group=group)

    def barrier(group, _):
        return lambda: dist.barrier(group=group)

    return {"send, recv": point_to_point, "all_reduce": all_reduce, "broadcast": broadcast, "reduce": reduce,
            "all_gather": all_gather, "reduce_scatter": reduce_scatter, "all_to_all": all_to_all, "gather": gather,
            "scatter": scatter, "barrier": barrier}


def pairs(arguments):
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", timeout=TIMEOUT)
    gloo = dist.group.WORLD
    ours = dist.new_group(backend="longhaul", timeout=TIMEOUT, pg_options=longhaul.Options(interface="lo"))

    def until_all_ended(call, times):
        dist.barrier(group=gloo)
        began, cpu = time.monotonic(), time.process_time()
        for _ in range(times):
            call()
        spent = torch.tensor([time.process_time() - cpu])
        dist.all_reduce(spent, group=gloo)
        return (time.monotonic() - began) / times, spent.item() / times

    if rank == 0:
        print(f"{ranks} ranks on {len(os.sched_getaffinity(0))} cores, lo; {arguments.rounds} pairs a row; ms of "
              "the median pair")
        print("| operation | bytes | gloo ms | longhaul ms | ratio [95 %] | processor, ratio [95 %] | |")
        print("|---|---|---|---|---|---|---|")
    for name, make in operations(rank, ranks).items():
        if arguments.operation and name not in arguments.operation:
            continue
        for size in [0] if name == "barrier" else arguments.bytes or SIZES:
            calls = {"gloo": make(gloo, size), "longhaul": make(ours, size)}
            times = 20 if size <= 1 << 10 else 5 if size <= 1 << 20 else 1
            for call in calls.values():
                until_all_ended(call, 2)
            rows = []
            for r in range(arguments.rounds):
                order = ["gloo", "longhaul"] if r % 2 == 0 else ["longhaul", "gloo"]
                rows.append({b: until_all_ended(calls[b], times) for b in order})
            if rank != 0:
                continue
            wall = [row["longhaul"][0] / row["gloo"][0] for row in rows]
            cpu = [row["longhaul"][1] / max(row["gloo"][1], 1e-9) for row in rows]
            low, high = median_interval(wall)
            cpu_low, cpu_high = median_interval(cpu)
            medians = [statistics.median(row[b][0] for row in rows) * 1e3 for b in ("gloo", "longhaul")]
            print(f"| {name} | {size} | {medians[0]:.3f} | {medians[1]:.3f} | {statistics.median(wall):.2f} "
                  f"[{low:.2f}, {high:.2f}] | {statistics.median(cpu):.2f} [{cpu_low:.2f}, {cpu_high:.2f}] | "
                  f"{'slower' if low > 1.05 else ''} |", flush=True)
    # A process whose group waits: the processor's share over two seconds in which nothing is sent.
    dist.barrier(group=gloo)
    began, cpu = time.monotonic(), time.process_time()
    time.sleep(2)
    idle = torch.tensor([(time.process_time() - cpu) / (time.monotonic() - began)])
    dist.all_reduce(idle, op=dist.ReduceOp.MAX, group=gloo)
    if rank == 0:
        print(f"idle: {100 * idle.item():.2f} % of a core, the process with most, both backends open")
    dist.destroy_process_group()


def boundary(arguments):
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo", timeout=TIMEOUT)
    groups = {"gloo, raw": dist.group.WORLD,
              "longhaul, raw": dist.new_group(backend="longhaul", timeout=TIMEOUT),
              "longhaul, int4-b64-h64": dist.new_group(
                  backend="longhaul", timeout=TIMEOUT, pg_options=longhaul.Options(forward="int4-b64-h64"))}
    x = torch.randn(arguments.mb << 19).to(torch.bfloat16).view(-1, 1024)
    answer = torch.zeros(1, dtype=torch.uint8)
    seconds = {name: [] for name in groups}
    for r in range(arguments.rounds + 1):
        for name, group in groups.items():
            dist.barrier()
            began = time.monotonic()
            if rank == 0:
                dist.send(x, 1, group=group)
                dist.recv(answer, 1)
            else:
                dist.recv(x, 0, group=group)
                dist.send(answer, 0)
            if r > 0:  # the first opens connections and windows
                seconds[name].append(time.monotonic() - began)
    if rank == 0:
        print(f"| {arguments.mb} MiB of bfloat16 | s, median [95 %] | Mbit/s of tensor | times faster than gloo [95 %] |")
        print("|---|---|---|---|")
        for name, taken in seconds.items():
            low, high = median_interval(taken)
            gains = [a / b for a, b in zip(seconds["gloo, raw"], taken)]
            gain_low, gain_high = median_interval(gains)
            s = statistics.median(taken)
            print(f"| {name} | {s:.3f} [{low:.3f}, {high:.3f}] | {arguments.mb * 8 * 1.048576 / s:.1f} | "
                  f"{statistics.median(gains):.2f} [{gain_low:.2f}, {gain_high:.2f}] |")
    dist.barrier()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["pairs", "boundary"], default="pairs")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--operation", action="append")
    parser.add_argument("--bytes", type=int, action="append")
    parser.add_argument("--mb", type=int, default=16)
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if arguments.what == "boundary":
        boundary(arguments)
        return
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ.update(WORLD_SIZE=str(arguments.ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    children = []
    for rank in range(arguments.ranks):
        pid = os.fork()
        if pid == 0:
            os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank))
            pairs(arguments)
            return
        children.append(pid)
    if any(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children):
        raise SystemExit("a rank failed")


main()
