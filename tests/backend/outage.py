"""A network that loses every packet for a while, between two hosts: peer_deadline alone says whether
the peer is dead. Within it everything goes on, idle connections too; after it operations end in time."""

import concurrent.futures
import datetime
import os
import sys
import time

import hosts
import launch

PORT = 29500  # in namespaces of the test's own
OUTAGE_S = 20  # TCP's own probes, where they are on, end an idle connection within 16 s
SHORT_S = 5


def worker():
    import torch
    import torch.distributed as dist

    import longhaul

    rank, deadline = int(os.environ["RANK"]), os.environ["DEADLINE"]
    options = {"default": {}, "never": {"peer_deadline": datetime.timedelta.max},
               "short": {"peer_deadline": datetime.timedelta(seconds=SHORT_S)}}[deadline]
    # The store shares the way and would not live through the outage: it is of no use after init.
    dist.init_process_group("longhaul", timeout=datetime.timedelta(seconds=120),
                            pg_options=longhaul.Options(**options))
    dist.barrier()
    print("ready", flush=True)
    sys.stdin.readline()  # the outage has begun
    begun = time.monotonic()
    if deadline == "default":  # nothing is under way meanwhile: an idle connection lives on
        time.sleep(OUTAGE_S)
    x = torch.full((1 << 20,), float(rank + 1))
    try:
        dist.all_reduce(x)  # 4 MB
        dist.barrier()
    except dist.DistNetworkError as error:
        print(f"{time.monotonic() - begun:.1f} s: {error}".splitlines()[0], flush=True)
        return
    assert torch.equal(x, torch.full((1 << 20,), 3.0))
    print(f"went on after {time.monotonic() - begun:.1f} s", flush=True)
    dist.destroy_process_group()


def lines_after(outage_s, deadline):
    """What the ranks print when the way between them was out for so long."""
    with hosts.Host() as first, hosts.Host() as middle, hosts.Host() as last:
        hosts.connect((first, middle), "net0", "10.97.0")
        hosts.connect((last, middle), "net1", "10.97.1")
        hosts.route((first, middle, last), ("10.97.0", "10.97.1"))
        ranks = [host.fork(worker, {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2",
                                    "LOCAL_RANK": "0", "MASTER_ADDR": "10.97.0.1",
                                    "MASTER_PORT": str(PORT), "DEADLINE": deadline})
                 for rank, host in enumerate((first, last))]
        for rank in ranks:
            assert rank.stdout.readline() == "ready\n"
        hosts.set_forwarding(middle, False)
        for rank in ranks:
            rank.stdin.write("\n")
            rank.stdin.flush()
        time.sleep(outage_s)
        hosts.set_forwarding(middle, True)
        return [rank.communicate(timeout=120)[0].strip() for rank in ranks]


def main():
    deadlines = ("default", "never", "short")
    with concurrent.futures.ThreadPoolExecutor() as together:  # they wait, each in namespaces of its own
        by_deadline = dict(zip(deadlines, together.map(lines_after, [OUTAGE_S] * 3, deadlines)))
    for deadline in ("default", "never"):
        said = by_deadline[deadline]
        print(f"peer_deadline {deadline}, {OUTAGE_S} s: {said}", flush=True)
        assert all(line.startswith("went on after") for line in said), (deadline, said)
        assert all(float(line.split()[3]) > OUTAGE_S - 1 for line in said), said
    said = by_deadline["short"]
    print(f"peer_deadline {SHORT_S} s, {OUTAGE_S} s: {said}", flush=True)
    for line in said:
        assert f"silent for the deadline of {SHORT_S}s" in line or "took" in line, said
        assert float(line.split()[0]) < 2 * SHORT_S, said


launch.check()
hosts.check()
import longhaul  # noqa: E402,F401  with torch, for all ranks; starts no thread

main()
