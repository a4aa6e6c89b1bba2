"""A program's signals stay its own: what every signal does, the signal stack and the mask are the same
before and after init_process_group, whatever the environment says to UCX; handlers that the program
installed before and after run."""

import ctypes
import faulthandler
import os
import signal
import sys
import time

import launch

# UCX takes no signal by any of them, and none of them moves a byte elsewhere.
ENVIRONMENTS = (
    {},
    {"UCX_DEBUG_SIGNO": "USR2", "UCX_HANDLE_ERRORS": "bt", "UCX_ERROR_SIGNALS": "SEGV,USR1,CHLD"},
    {"UCX_STATS_TRIGGER": "signal:USR1", "UCX_STATS_DEST": "stdout", "UCX_MEM_EVENTS": "y", "UCX_ASYNC_SIGNO": "USR2"},
    {"UCX_LOG_LEVEL": "warn", "UCX_WARN_UNUSED_ENV_VARS": "n", "UCX_HANDLE_ERRORS": "none", "UCX_IB_GPU_DIRECT_RDMA": "n",
     "UCX_MEMTYPE_CACHE": "n", "UCX_RCACHE_ENABLE": "n"},
)
BEFORE = (signal.SIGHUP, signal.SIGUSR1, signal.SIGTERM)
AFTER = (signal.SIGUSR2, signal.SIGCHLD, signal.SIGINT)
libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_int)


def signal_state():
    """Of every signal its handler, mask (64 signals) and flags, as bytes; the alternative stack; the mask."""
    actions = {}
    for number in range(1, signal.NSIG):
        action = ctypes.create_string_buffer(256)
        if libc.sigaction(number, None, action) == 0:
            actions[number] = action.raw[:16] + action.raw[136:140]
    stack = ctypes.create_string_buffer(24)
    assert libc.sigaltstack(None, stack) == 0
    return actions, stack.raw, signal.pthread_sigmask(signal.SIG_BLOCK, [])


def use_longhaul(port):
    import torch
    import torch.distributed as dist

    import longhaul  # noqa: F401

    dist.init_process_group("longhaul", rank=0, world_size=1, init_method=f"tcp://127.0.0.1:{port}",
                            timeout=launch.TIMEOUT)
    dist.all_reduce(torch.ones(4))


def program(environment, port):
    os.environ.update(environment)
    seen = []
    segv = HANDLER(lambda number: seen.append(signal.SIGSEGV))  # in C: Python has none for it
    libc.signal(signal.SIGBUS, segv)
    faulthandler.enable()
    libc.signal(signal.SIGSEGV, segv)
    for number in BEFORE:
        signal.signal(number, lambda n, frame: seen.append(n))
    before = signal_state()
    use_longhaul(port)
    after = signal_state()
    changed = [n for n in before[0] if before[0][n] != after[0][n]]
    assert not changed and before == after, f"{environment}: {changed and f'signals {changed}' or 'stack or mask'} changed"
    for name, value in environment.items():
        assert libc.getenv(name.encode()) == value.encode(), f"{name} is {libc.getenv(name.encode())}"
    for number in AFTER:
        signal.signal(number, lambda n, frame: seen.append(n))
    for number in (*BEFORE, *AFTER, signal.SIGSEGV):
        os.kill(os.getpid(), number)
        deadline = time.monotonic() + 5
        while number not in seen and time.monotonic() < deadline:
            time.sleep(0.01)
        assert seen.count(number) == 1, f"{environment}: the handler of {number!r} ran {seen.count(number)} times"


def without_a_handler(port):
    """A hang-up ends a process that has no handler of it."""
    use_longhaul(port)
    os.kill(os.getpid(), signal.SIGHUP)
    time.sleep(5)


def ended(act, *arguments):
    """The status of a process of its own: UCX is loaded once in each."""
    pid = os.fork()
    if pid == 0:
        try:
            act(*arguments)
            os._exit(0)
        except BaseException as error:  # the status says it
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main():
    launch.check()
    import torch  # noqa: F401  once, before the forks

    for environment in ENVIRONMENTS:
        assert ended(program, environment, launch.free_port()) == 0, environment
        print(f"ok: {environment}", flush=True)
    status = ended(without_a_handler, launch.free_port())
    assert status == -signal.SIGHUP, f"SIGHUP without a handler ended it with {status}"


main()
