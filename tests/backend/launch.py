"""Runs a test file as several processes: the file calls launch.main(worker)."""

import datetime
import os
import signal
import socket
import sys

SKIPPED = 77
TIMEOUT = datetime.timedelta(seconds=60)


def skip(reason):
    print(f"SKIPPED: {reason}")
    sys.exit(SKIPPED)


def check():
    """Ends the program as skipped where these tests cannot run."""
    try:
        import torch.distributed as dist
    except ImportError as error:
        skip(f"no torch in {sys.executable}: {error}")
    if not dist.is_available():
        skip("this torch is built without torch.distributed")
    with open("/sys/class/net/lo/flags") as flags:
        if not int(flags.read(), 16) & 1:
            skip("the loopback interface lo is down: ip link set lo up")
    # One thread per process: these tests share their cores with others.
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def main(worker, ranks=2, agent=False):
    """agent: under torchrun. Otherwise the ranks are forked once torch is there, which takes as long
    to start as most tests run, and rank 0 serves the store."""
    if "LOCAL_RANK" in os.environ:
        worker()
        return
    check()
    if agent:
        os.execv(sys.executable, [sys.executable, "-m", "torch.distributed.run", "--standalone",
                                  f"--nproc-per-node={ranks}", os.path.abspath(sys.argv[0])])
    import longhaul  # noqa: F401  with torch; starts no thread

    os.environ.update(WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    running = set()
    for rank in range(ranks):
        pid = os.fork()
        if pid == 0:
            os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank))
            worker()
            return  # it ends as any other program does
        running.add(pid)
    while running:
        pid, status = os.wait()
        running.discard(pid)
        if status != 0:
            for other in running:
                os.kill(other, signal.SIGKILL)
            sys.exit(f"a rank ended with {os.waitstatus_to_exitcode(status)}")


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def init(**options):
    """The default group over the interface lo. Returns (rank, size)."""
    import torch.distributed as dist

    import longhaul

    dist.init_process_group("longhaul", timeout=TIMEOUT,
                            pg_options=longhaul.Options(interface="lo", **options))
    return dist.get_rank(), dist.get_world_size()


def expect_error(kind, words, act):
    """Runs act(), which must raise `kind` with every one of `words` in its text."""
    try:
        act()
    except kind as error:
        missing = [word for word in words if word not in str(error)]
        assert not missing, f"{missing} not in: {error}"
        return
    raise AssertionError(f"no {kind.__name__}, wanted one with {words}")


def frame_bytes(elements, bits):
    """Of int4-b64-h64 and int8-b64: 64-byte header, a bf16 scale per 64, the packed values."""
    eights = lambda n: -(-n // 8) * 8
    return 64 + eights(2 * -(-elements // 64)) + eights(-(-elements * bits // 8))
