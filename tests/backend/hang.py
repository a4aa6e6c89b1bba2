"""Three processes, one of which stops: whoever waits for it, directly or through another, is told that
it is the one, and where the last operations are."""

import datetime
import os
import pathlib
import re
import signal
import time

import torch
import torch.distributed as dist

import launch
import longhaul


def message_of(act):
    try:
        act()
    except dist.DistBackendError as error:
        return str(error)
    raise AssertionError("it should not have ended")


def operations_in(message):
    path = pathlib.Path(re.search(r"the last operations with each rank are in (\S+)", message)[1])
    text = path.read_text()
    path.unlink()
    return text


def worker():
    rank, _ = launch.init()
    group = dist.new_group([0, 1, 2], timeout=datetime.timedelta(seconds=3))
    x = torch.ones(1000)
    dist.all_reduce(x, group=group)
    pids = [None] * 3
    dist.all_gather_object(pids, os.getpid())
    if rank == 2:
        os.kill(os.getpid(), signal.SIGSTOP)
    else:
        # Rank 0 waits for 1, which waits for 2.
        said = message_of(lambda: dist.recv(x, rank + 1, group=group))
        assert "within the timeout of 3s" in said, said
        if rank == 0:
            assert re.search(r"rank 1 waits for rank 2 \(recv, tag 0\)", said), said
        else:
            assert "from rank 2, sequence 0, tag 0" in said, said
        assert re.search(r"allreduce 0, sent .* done", operations_in(said))
        text = longhaul.recent_operations(group)
        assert re.search(rf"rank {rank + 1}\n(.*\n)*?  recv, tag 0 +4000 bytes  failed", text), text
    # The one that stopped goes on when both others were told that it did not come, and comes when it has
    # had time to read their notices: before that it finds their tensors and may be done.
    store = dist.distributed_c10d._get_default_store()
    if rank == 2:
        store.wait(["told 0", "told 1"])
        time.sleep(1)
    # On every rank the same words, on the one that stopped too.
    said = message_of(lambda: dist.all_reduce(x, group=group))
    operations_in(said)
    if rank != 2:
        store.set(f"told {rank}", "yes")
    if rank == 0:
        store.wait(["told 1"])
        os.kill(pids[2], signal.SIGCONT)
    assert "rank 2 did not come to it within the timeout of 3s" in said, said
    print(f"rank {rank}: {said}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


launch.main(worker, ranks=3)
