"""Network namespaces as hosts, joined by veth pairs, for tests with several processes. Needs root,
unshare, nsenter and ip."""

import os
import shutil
import subprocess

import forked
import launch

_INSIDE = "mount -t sysfs none /sys && ip link set lo up && echo ready && exec sleep infinity"


def check():
    """Ends the program as skipped where no namespace can be made."""
    if os.geteuid() != 0:
        launch.skip("needs root to make network namespaces")
    missing = [tool for tool in ("unshare", "nsenter", "ip") if shutil.which(tool) is None]
    if missing:
        launch.skip(f"needs {', '.join(missing)}")
    if subprocess.run(["unshare", "--net", "--mount", "true"], stderr=subprocess.DEVNULL).returncode:
        launch.skip("no right to make network namespaces")


class Host:
    """One namespace with a fresh /sys and lo up. As a context manager it takes its processes along."""

    def __init__(self):
        self._init = subprocess.Popen(["unshare", "--net", "--mount", "sh", "-c", _INSIDE],
                                      stdout=subprocess.PIPE, text=True)
        assert self._init.stdout.readline() == "ready\n"
        self._started = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in [*self._started, self._init]:
            process.kill()
            process.wait()

    def _argv(self, argv):
        return ["nsenter", "-t", str(self._init.pid), "--net", "--mount",
                f"--wd={os.getcwd()}", "--", *argv]

    def run(self, *argv):
        subprocess.run(self._argv(argv), check=True)

    def start(self, *argv, **options):
        process = subprocess.Popen(self._argv(argv), **options)
        self._started.append(process)
        return process

    def fork(self, work, env):
        """work() as a process of this host: forked.Forked."""
        process = forked.Forked(work, env, self._init.pid)
        self._started.append(process)
        return process

    def name_hosts(self, addresses):
        """In this namespace alone, /etc/hosts holds these: {name: address}."""
        lines = "\\n".join(f"{address} {name}" for name, address in addresses.items())
        self.run("sh", "-c", f"mount -t tmpfs none /mnt && printf '{lines}\\n' >/mnt/hosts && "
                 "mount --bind /mnt/hosts /etc/hosts")


def route(hosts, networks):
    """The first and the last of three hosts reach each other through the middle one, which is on
    both `networks` (connect: the middle host is the second of each pair)."""
    first, middle, last = hosts
    middle.run("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
    first.run("ip", "route", "add", f"{networks[1]}.0/24", "via", f"{networks[0]}.2")
    last.run("ip", "route", "add", f"{networks[0]}.0/24", "via", f"{networks[1]}.2")


def set_forwarding(middle, on):
    """Whether packets pass through it; when not they vanish, as in an outage."""
    middle.run("sh", "-c", f"echo {int(on)} >/proc/sys/net/ipv4/ip_forward")


def connect(hosts, name, network):
    """A veth `name` in each of two hosts, with the addresses network.1 and network.2."""
    first, second = hosts
    subprocess.run(["ip", "link", "add", name, "netns", str(first._init.pid), "type", "veth",
                    "peer", "name", name, "netns", str(second._init.pid)], check=True)
    for number, host in enumerate(hosts, start=1):
        host.run("ip", "addr", "add", f"{network}.{number}/24", "dev", name)
        host.run("ip", "link", "set", name, "up")
