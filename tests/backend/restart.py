"""torchrun starts the workers again after one has died: the new ones find each other in a store that
still holds what the dead ones wrote."""

import os
import sys

import launch


def worker():
    import torch
    import torch.distributed as dist

    import longhaul

    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    rank, _ = launch.init()
    group = dist.new_group([0, 1], backend="longhaul")
    x = torch.full((3,), rank + 1.0)
    dist.all_reduce(x, group=group)
    if attempt == 0 and rank == 1:
        os._exit(3)
    if attempt == 0:
        dist.barrier()  # fails, or is ended by torchrun
    assert torch.equal(x, torch.full((3,), 3.0)), x
    dist.barrier()
    print(f"rank {rank}: attempt {attempt} found the others", flush=True)
    dist.destroy_process_group()
    # Once more in the same process: the store has the records of the first time.
    launch.init()
    dist.barrier()
    dist.destroy_process_group()


if "LOCAL_RANK" not in os.environ:
    launch.check()
    os.execv(sys.executable, [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
        "--max-restarts=1", "--monitor-interval=0.1", os.path.abspath(sys.argv[0])])
worker()
