#!/usr/bin/env python3
"""CPU time per step of one process: boundaries against none, and what a step spends beside training. In pairs.

Usage: engine_pairs.py [--longhaul build/longhaul] [--rounds 7] [--width 64,320]

Each arm runs twice per round, with few and with more steps, so that start-up, data and evaluation cancel:
CPU seconds per step = (user + system of the longer run - of the shorter) / steps between them. Arms of a round run one
after another; a ratio is taken within its round. Printed: the median ratio with a distribution-free 95 % interval
(order statistics, 6 rounds or more). CPU time, not wall time: other programs on the machine change it less.
"""

import argparse
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent
SPEC = """seed = 1
[model]
kind = "gpt"
blocks = 8
width = {width}
heads = 4
context = 128
vocab = 256
[data]
source = "headers"
[train]
steps = {steps}
batch_rows = 16
microbatches = 4
lr = 3e-3
[schedule]
kind = "1f1b"
stages = 1
[boundary]
forward = "none"
backward = "none"
[net]
transport = "loopback"
[eval]
rows = 1
"""
EIGHT = ["schedule.stages=8"]
INT4 = EIGHT + ["boundary.forward=int4-b64-h64", "boundary.backward=int8-b64"]
ARMS = {
    "S = 1": [],
    "S = 8, none": EIGHT,
    "S = 8, int4-b64-h64 / int8-b64": INT4,
    "the same, no frame's error measured": INT4 + ["boundary.nmse_every=0"],
}
ORDER = {6: 0, 7: 0, 8: 0, 9: 1, 10: 1, 11: 1, 12: 2}  # n -> how many to leave out at each end for 95 %


def cpu_seconds(longhaul, spec, sets):
    """User and system seconds of one run and everything that it started."""
    with tempfile.TemporaryDirectory() as results:
        words = [str(longhaul), "run", str(spec), "--quiet", "--results", results]
        for entry in sets:
            words += ["--set", entry]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(words)}: exit status {done.returncode}\n{done.stdout[-2000:]}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def median_interval(values):
    values = sorted(values)
    cut = ORDER.get(len(values))
    if cut is None:
        return f"{statistics.median(values):.3f} ({len(values)} rounds: no interval)"
    return f"{statistics.median(values):.3f} [{values[cut]:.3f}, {values[-1 - cut]:.3f}]"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--longhaul", type=pathlib.Path, default=TOP / "build/longhaul")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--width", default="64,320", help="of models of 8 blocks: 64 is 0.43 M parameters, 320 is 10 M")
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for width in map(int, arguments.width.split(",")):
        short, more = (20, 80) if width < 128 else (3, 6)
        with tempfile.TemporaryDirectory() as folder:
            spec = pathlib.Path(folder) / "engine.toml"
            spec.write_text(SPEC.format(width=width, steps=short))
            seconds = {name: [] for name in ARMS}
            for _ in range(arguments.rounds):
                for name, sets in ARMS.items():
                    few = cpu_seconds(arguments.longhaul, spec, sets)
                    many = cpu_seconds(arguments.longhaul, spec, sets + [f"train.steps={short + more}"])
                    seconds[name].append((many - few) / more)
        parameters = 640 * width + 96 * width * width
        print(f"\n{parameters / 1e6:.2f} M parameters, 2,048 tokens per step, {arguments.rounds} rounds\n")
        print("| arm | CPU ms per step, median | S = 1 / arm, within a round |\n|---|---|---|")
        for name, own in seconds.items():
            ratios = [one / other for one, other in zip(seconds["S = 1"], own)]
            print(f"| {name} | {statistics.median(own) * 1e3:.1f} | {median_interval(ratios)} |", flush=True)


main()
