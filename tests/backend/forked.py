"""Processes that are forked from a program which has torch already: to start torch anew takes longer
than most of what is tested."""

import atexit
import ctypes
import os
import select
import signal
import sys
import time
import traceback


_CLONE_NEWNS = 0x20000


def _enter(pid):
    """This process into the network and the mounts of process `pid`, its folder and its /proc kept."""
    libc, folder = ctypes.CDLL(None, use_errno=True), os.getcwd()
    spaces = [os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY) for kind in ("net", "mnt")]
    for space in spaces:
        if libc.setns(space, 0) != 0:
            raise OSError(ctypes.get_errno(), f"setns to process {pid}")
    if not os.path.exists("/proc/self"):  # it has processes of its own, of which this is none
        if libc.unshare(_CLONE_NEWNS) != 0 or libc.mount(b"proc", b"/proc", b"proc", 0, None) != 0:
            raise OSError(ctypes.get_errno(), "mount of a /proc")
    os.chdir(folder)


def _run(work):
    code = 1
    try:
        work()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # the rest of the program is not this process's


class Forked:
    """Runs work() with these variables in its environment; as subprocess.Popen(text=True) with pipes
    to its standard input and output. `inside`: a process whose network and mounts it enters."""

    def __init__(self, work, env, inside=None):
        there, self_in = os.pipe()
        self_out, back = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.dup2(there, 0)
            os.dup2(back, 1)
            os.closerange(3, 4096)  # other processes' pipes, which would stay open here
            os.environ.clear()
            os.environ.update(env)
            sys.stdin = open(0, closefd=False)
            _run(lambda: (_enter(inside) if inside else None, work()))
        os.close(there)
        os.close(back)
        self.stdin, self.stdout = os.fdopen(self_in, "w"), os.fdopen(self_out)
        self.returncode = None

    def wait(self, timeout=300):
        deadline = time.monotonic() + timeout
        while self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > deadline:
                raise TimeoutError(f"process {self.pid} did not end within {timeout} s")
            else:
                time.sleep(0.01)
        return self.returncode

    def communicate(self, timeout=300):
        """(what it printed, None)"""
        self.stdin.close()
        deadline, printed = time.monotonic() + timeout, ""
        while True:
            if not select.select([self.stdout], [], [], deadline - time.monotonic())[0]:
                raise TimeoutError(f"process {self.pid} did not end within {timeout} s; printed {printed}")
            part = os.read(self.stdout.fileno(), 1 << 16).decode()
            if not part:
                break
            printed += part
        self.wait(max(1, deadline - time.monotonic()))
        return printed, None

    def kill(self):
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)
