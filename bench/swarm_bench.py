"""Times a fetch from all members of a swarm against copies from one, over shaped links.

usage: swarm_bench.py join [--profile P]... [--groups N]... [--mb MB] [--rounds R]
       swarm_bench.py beside [--mb MB] [--seconds S] [--limits mbit,..]

`join`: one node joins, the other groups - 1 have the files. Three ways, in turn, the median of R rounds: a plain copy
over one TCP connection from one of them, a fetch from the same one, a fetch from all. Seconds until the files are
there: hashed against the manifest for a fetch, received for a copy. Beside them the closed form (`weights estimate`).

`beside`: what the others feel. Nodes a, b, c and a joiner j, each behind an access line of 100 Mbit/s both ways, 65 ms
apart. a sends b a message of 2 MB every half second and waits for one byte back; meanwhile j fetches from a alone, then from
a, b and c with each of the --limits (Mbit/s) on what each of them sends.

Run it as root from the repository's folder, with build/longhaul built and the machine otherwise idle.
"""
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from join_bench import LONGHAUL, PROFILES, access_file, estimate, main, run

WEIGHTS = [LONGHAUL + "-weights", "weights"]

COPY_SERVER = """
import socket, sys
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind((sys.argv[1], 7000)); s.listen()
while True:
    c, _ = s.accept()
    with open(sys.argv[2], "rb") as f: c.sendfile(f)
    c.close()
"""
COPY_CLIENT = """
import socket, sys, time
start = time.monotonic()
c = socket.create_connection((sys.argv[1], 7000)); n = 0
while chunk := c.recv(1 << 20): n += len(chunk)
print(n, time.monotonic() - start)
"""
MESSAGE_SERVER = """
import socket, sys
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind((sys.argv[1], 7001)); s.listen()
c, _ = s.accept(); left = size = int(sys.argv[2])
while chunk := c.recv(min(left, 1 << 20)):
    left -= len(chunk)
    if left == 0: c.send(b"."); left = size
"""
MESSAGE_CLIENT = """
import json, socket, sys, time
c = socket.create_connection((sys.argv[1], 7001)); c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
message = bytes(int(sys.argv[2])); end = time.monotonic() + float(sys.argv[3]); times = []
while time.monotonic() < end:
    start = time.monotonic(); c.sendall(message); c.recv(1); took = time.monotonic() - start
    times.append([start, took]); time.sleep(max(0, 0.5 - took))
print(json.dumps(times))
"""


class Lab:
    """A lab of its own name; `node` is started programs' place. Taken down at the end."""

    def __init__(self, *links):
        self.name = f"swarm-bench-{os.getpid()}"
        self.children = []
        run(LONGHAUL, "net", "up", *links, "--name", self.name)
        self.nodes = run(LONGHAUL, "net", "list", self.name, "--nodes").split()

    def words(self, node, *words):
        return [LONGHAUL, "net", "exec", f"{self.name}/{self.nodes[node]}", "--", *words]

    def run(self, node, *words):
        return run(*self.words(node, *words))

    def start(self, node, *words):
        child = subprocess.Popen(self.words(node, *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.children.append(child)
        return child

    def stop(self, child):
        child.send_signal(signal.SIGTERM)
        child.communicate(timeout=20)
        self.children.remove(child)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for child in list(self.children):
            child.kill()
        run(LONGHAUL, "net", "down", self.name)


def address(node):
    return f"10.0.0.{2 + node}"


def make_weights(folder, mb):
    os.makedirs(f"{folder}/w", exist_ok=True)
    with open(f"{folder}/w/model.bin", "wb") as f:
        f.write(os.urandom(int(mb * 1e6)))


def share(lab, node, folder, *more):
    child = lab.start(node, *WEIGHTS, "share", f"{folder}/w", "--listen", f"{address(node)}:6881",
                      "--member", "10.0.0.0/16", "--manifest", f"{folder}/manifest.json", "--quiet", *more)
    if not child.stdout.readline().startswith("sharing"):
        raise RuntimeError(child.stderr.read())
    return child


def fetch(lab, node, folder, sources, *more):
    into = f"{folder}/got"
    subprocess.run(["rm", "-rf", into, into + ".partial"], check=True)
    peers = [word for source in sources for word in ("--peer", f"{address(source)}:6881")]
    return json.loads(lab.run(node, *WEIGHTS, "fetch", f"{folder}/manifest.json", "--into", into, *peers,
                              "--json", "--quiet", *more))


def time_copy(lab, node, source):
    count, seconds = lab.run(node, sys.executable, "-c", COPY_CLIENT, address(source)).split()
    return float(seconds)


def join_one(profile, groups, mb, rounds):
    with tempfile.TemporaryDirectory() as folder, Lab(profile, "--nodes", str(groups)) as lab:
        make_weights(folder, mb)
        everyone = list(range(1, groups))
        for node in everyone:
            share(lab, node, folder)
        lab.start(1, sys.executable, "-c", COPY_SERVER, address(1), f"{folder}/w/model.bin")
        time.sleep(0.5)
        times = {"copy": [], "one": [], "all": []}
        for _ in range(rounds):
            times["copy"].append(time_copy(lab, 0, 1))
            times["one"].append(fetch(lab, 0, folder, [1])["seconds"])
            times["all"].append(fetch(lab, 0, folder, everyone)["seconds"])
        median = {key: statistics.median(values) for key, values in times.items()}
        of_all, copy = estimate(mb, groups - 1, profile)
        of_one = estimate(mb, 1, profile)[0]
        spread = max(times["all"]) - min(times["all"])
        print(f"| {profile} | {groups} | {median['copy']:.2f} ({copy:.2f}) | {median['one']:.2f} ({of_one:.2f}) | "
              f"{median['all']:.2f} ({of_all:.2f}) | {spread:.2f} | {median['copy'] / median['all']:.2f} |", flush=True)


def join(arguments):
    print("| profile | groups | plain copy, s (closed form) | fetch from one | fetch from all | spread | copy / all |")
    print("|---|---|---|---|---|---|---|")
    for profile in arguments.profile or list(PROFILES):
        for groups in arguments.groups or [2, 4, 8]:
            join_one(profile, groups, arguments.mb, arguments.rounds)


def message_times(lab, seconds, size, fetching):
    """Median and longest message while `fetching` runs (all of them, where it is None), and how long that took."""
    server = lab.start(2, sys.executable, "-c", MESSAGE_SERVER, address(2), str(size))
    time.sleep(0.5)
    client = lab.start(1, sys.executable, "-c", MESSAGE_CLIENT, address(2), str(size), str(seconds))
    time.sleep(4)  # warm
    begin = time.monotonic()
    took = fetching()["seconds"] if fetching else 0
    end = time.monotonic() if fetching else begin + seconds
    times = [t for at, t in json.loads(client.communicate()[0]) if begin <= at and at < end]
    lab.children.remove(client)
    lab.stop(server)
    return statistics.median(times), max(times), len(times), took


def beside(arguments):
    size = 2_000_000
    print("| swarm | message, median s | longest | messages | join, s |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        make_weights(folder, arguments.mb)
        with Lab(access_file(folder, "jabc")) as lab:
            median, most, count, _ = message_times(lab, 12, size, None)
            print(f"| none | {median:.3f} | {most:.3f} | {count} | |", flush=True)
            for limit, sources in [("none", [1])] + [(limit, [1, 2, 3]) for limit in arguments.limits.split(",")]:
                shares = [share(lab, node, folder, *(["--up", f"{limit}mbit"] if limit != "none" else []))
                          for node in (1, 2, 3)]
                median, most, count, took = message_times(lab, arguments.seconds, size,
                                                          lambda: fetch(lab, 0, folder, sources))
                for child in shares:
                    lab.stop(child)
                who = "a alone" if sources == [1] else "a, b, c"
                print(f"| from {who}, limit {limit} | {median:.3f} | {most:.3f} | {count} | {took:.2f} |", flush=True)


if __name__ == "__main__":
    main(__doc__, join, beside, "none,50,25,10", {"--mb": (float, 64), "--seconds": (float, 45)})
