"""One of two processes is killed, in the middle of a collective with a codec: the other's operations
fail, naming it, instead of hanging.

Not under torchrun, which ends the survivor for the other's death."""

import datetime
import os
import signal

import forked
import launch


def worker():
    import torch
    import torch.distributed as dist

    rank, _ = launch.init(peer_deadline=datetime.timedelta(seconds=10))
    import longhaul
    coded = dist.new_group([0, 1], backend="longhaul", pg_options=longhaul.Options(
        collectives="int8-b64", collective_way="direct"))
    dist.barrier()
    summed = dist.all_reduce(torch.randn(8 << 20), group=coded, async_op=True)
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    launch.expect_error(dist.DistNetworkError, ["allreduce", "rank 1"], summed.wait)
    x = torch.zeros(4)
    launch.expect_error(dist.DistNetworkError, ["recv", "rank 1"], lambda: dist.recv(x, 1))
    launch.expect_error(dist.DistNetworkError, ["rank 1"], lambda: dist.all_reduce(x))
    launch.expect_error(dist.DistNetworkError, ["send", "rank 1"], lambda: dist.send(x, 1))
    dist.destroy_process_group()
    print("the survivor was told", flush=True)


def start_two():
    port = launch.free_port()
    processes = [
        forked.Forked(worker, {**os.environ, "LOCAL_RANK": str(rank), "RANK": str(rank),
                               "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                               "MASTER_PORT": str(port)})
        for rank in range(2)]
    codes = [process.wait(timeout=200) for process in processes]
    assert codes == [0, -signal.SIGKILL], codes


launch.check()
import longhaul  # noqa: E402,F401  with torch, for both ranks; starts no thread

start_two()
