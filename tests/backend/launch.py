"""Runs a test file as several processes under torchrun: the file calls launch.main(worker)."""

import datetime
import os
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


def main(worker, ranks=2):
    if "LOCAL_RANK" in os.environ:
        worker()
        return
    check()
    os.execv(sys.executable, [sys.executable, "-m", "torch.distributed.run", "--standalone",
                              f"--nproc-per-node={ranks}", os.path.abspath(sys.argv[0])])


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
