"""One stage's gradients, alone on a device and in four processes that use it at the same time: equal bits.

Usage: shared_device.py STAGE_HASH DEVICE... [--rounds 40]    Exit status 77: skipped, and why.
"""

import argparse
import itertools
import subprocess
import sys

SKIPPED = 77
PROCESSES = 4
TRIES = 3  # to see them at work at the same time, each with twice the rounds of the one before
DTYPES = ("float32", "bfloat16")
ATTENTION = ("math", "fused")  # of a GPU


class Process:
    def __init__(self, program, device, kind, rounds):
        self.running = subprocess.Popen([program, device, *kind, str(rounds)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.first = self.running.stdout.readline().strip()
        if self.first != "ready":
            status = self.running.wait()
            print(f"{'skipped' if status == SKIPPED else 'FAILED'}: {self.first}")
            sys.exit(SKIPPED if status == SKIPPED else 1)

    def go(self):
        self.running.stdin.write("go\n")
        self.running.stdin.flush()

    def hashes(self):
        """Of each round that differed, and when it ran."""
        out, _ = self.running.communicate()
        if self.running.returncode != 0:
            sys.exit(f"FAILED: stage_hash ended with {self.running.returncode}")
        lines = [line.split() for line in out.splitlines()]
        self.begin, self.end = (float(s) for s in lines[-1][1:])
        return {(kind, value) for what, kind, value in lines[:-1]}


def together(program, device, kind, count, rounds):
    """What they computed, and the part of the longest one's time in which all were at work."""
    processes = [Process(program, device, kind, rounds) for _ in range(count)]
    for process in processes:
        process.go()
    seen = set().union(*[process.hashes() for process in processes])
    overlap = min(p.end for p in processes) - max(p.begin for p in processes)
    longest = max(p.end - p.begin for p in processes)
    return seen, overlap / longest


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("stage_hash")
    parser.add_argument("devices", nargs="+")
    parser.add_argument("--rounds", type=int, default=40)
    arguments = parser.parse_args()
    for device in arguments.devices:
        for kind in itertools.product(DTYPES, ATTENTION if device != "cpu" else ATTENTION[:1]):
            name = ", ".join((device, *kind))
            alone, _ = together(arguments.stage_hash, device, kind, 1, 1)
            for attempt in range(TRIES):
                rounds = arguments.rounds << attempt
                shared, overlap = together(arguments.stage_hash, device, kind, PROCESSES, rounds)
                if len(alone) == 0 or shared != alone:
                    sys.exit(f"FAILED: {name}: alone {sorted(alone)}, shared {sorted(shared)}")
                if overlap > 0:
                    break
            else:
                sys.exit(f"FAILED: {name}: in {TRIES} tries the processes never ran at the same time")
            print(f"{name}: {PROCESSES} processes at once, {rounds} rounds each: "
                  f"the gradients of one alone, bit for bit ({', '.join(sorted(k for k, _ in alone))}; "
                  f"all at once {100 * overlap:.0f} % of the time)")


main()
