"""A process that is stopped (SIGSTOP) for less than four fifths of peer_deadline: nothing is lost.
One that is stopped longer: the other's operations fail in time, and its own when it goes on.

Not under torchrun, which would end both."""

import datetime
import os
import signal
import time

import forked
import launch

DEADLINE_S = 6
STOP_S = 3


def stop_oneself():
    os.kill(os.getpid(), signal.SIGSTOP)  # whoever started this sends SIGCONT


def worker():
    import torch
    import torch.distributed as dist

    import longhaul

    rank, _ = launch.init(peer_deadline=datetime.timedelta(seconds=DEADLINE_S))
    coded = dist.new_group([0, 1], backend="longhaul",
                           pg_options=longhaul.Options(collectives="int8-b64"))
    dist.barrier()
    if rank == 1:
        stop_oneself()
    big, like = torch.full((1 << 20,), float(rank + 1)), torch.full((1 << 20,), float(rank + 1))
    summed = dist.all_reduce(like, group=coded, async_op=True)
    dist.all_reduce(big)  # under way while the other is stopped, as that of frames
    assert torch.equal(big, torch.full((1 << 20,), 3.0))
    summed.wait()
    torch.testing.assert_close(like, big, rtol=0.01, atol=0)
    dist.barrier()
    if rank == 1:
        stop_oneself()
    begun = time.monotonic()
    launch.expect_error(dist.DistNetworkError, ["allreduce", f"rank {1 - rank}"],
                        lambda: dist.all_reduce(like, group=coded))
    x = torch.zeros(4)
    launch.expect_error(dist.DistNetworkError, ["recv", f"rank {1 - rank}"],
                        lambda: dist.recv(x, 1 - rank))
    took = time.monotonic() - begun
    if rank == 0:
        assert 0.8 * DEADLINE_S < took < 1.2 * DEADLINE_S + 3, took
    launch.expect_error(dist.DistNetworkError, [f"rank {1 - rank}"], lambda: dist.send(x, 1 - rank))
    dist.destroy_process_group()
    print(f"rank {rank} was told after {took:.1f} s", flush=True)


def start_two():
    port = launch.free_port()
    processes = [
        forked.Forked(worker, {**os.environ, "LOCAL_RANK": str(rank), "RANK": str(rank),
                               "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                               "MASTER_PORT": str(port)})
        for rank in range(2)]
    survivor, stopped = processes

    def await_stop():
        _, status = os.waitpid(stopped.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), f"rank 1 ended with status {status} instead of stopping"

    await_stop()
    time.sleep(STOP_S)
    os.kill(stopped.pid, signal.SIGCONT)
    await_stop()
    assert survivor.wait(timeout=100) == 0
    os.kill(stopped.pid, signal.SIGCONT)
    assert stopped.wait(timeout=100) == 0


launch.check()
import longhaul  # noqa: E402,F401  with torch, for both ranks; starts no thread

start_two()
