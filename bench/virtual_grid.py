#!/usr/bin/env python3
"""The clock of simulated runs beside the kernel's own TCP in virtual time: profiles x schedules x outer steps.

Usage: virtual_grid.py [--tests build/tests] [--grid short|all|more|lossy] [--only REGEX] [--seeds 8] [--check]

Each cell is a guest of its own (tests/netem/guest), as many at a time as there are cores, in which
virtual_run plays the program of experiments/specs/clock-pair.toml with sleeps and sockets over the lab's
links. Prints a table in Markdown; no second in it depends on this machine. --check: exit status 1 where
a cell is further from the engine than 2 %, or, where a queue dropped frames on one of the two slowest
profiles, than what TAIL says, with bbr than 5 % (docs/virtual-time.md). --grid lossy: on paths that lose packets, whose losses hang
on the seed, each cell is --seeds runs; --check holds the means to 95 % intervals that overlap.
"""

import argparse
import concurrent.futures
import itertools
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent
SPEC = TOP / "experiments/specs/clock-pair.toml"
BAR = 0.02
# Where a whole message is under way, and nothing behind it tells that its end was dropped.
TAIL = {"global": 0.15, "worst-case": 0.04}
BBR_BAR = 0.05
PROFILES = ["colocated", "regional", "same-country", "continental-us", "transatlantic", "simulator-default",
            "transpacific", "global", "worst-case"]
SCHEDULES = {
    "gpipe": ["schedule.kind=gpipe"],
    "1f1b": ["schedule.kind=1f1b"],
    "interleaved-1f1b": ["schedule.kind=interleaved-1f1b", "schedule.stages=4", "schedule.chunks=2"],
}
OUTERS = {
    "none": ["outer.groups=1", "outer.inner_steps=0"],
    "diloco": ["outer.groups=2", "outer.inner_steps=5"],
    "streaming": ["outer.groups=2", "outer.inner_steps=6", "outer.algorithm=streaming",
                  "outer.fragments=2", "outer.overlap_steps=1"],
}
# What the grid does not have: other outer steps and congestion controls.
MORE_OUTERS = {
    "dp": ["outer.groups=2", "outer.inner_steps=0", "outer.algorithm=dp", "outer.codec=int8-b64"],
    "noloco": ["outer.groups=4", "outer.inner_steps=5", "outer.algorithm=noloco"],
    "diloco, cubic": [*OUTERS["diloco"], "net.congestion_control=cubic"],
    "diloco, bbr": [*OUTERS["diloco"], "net.congestion_control=bbr"],
}
MORE = [*itertools.product(["continental-us", "transpacific", "global"], ["1f1b"], MORE_OUTERS)]
# Paths that lose packets: profile, per cent, and what is done about it.
LOSSY = [*itertools.product(["continental-us", "transpacific"], ["0.1", "1"], ["reno", "cubic"])]
LOSSY_LINKS = TOP / "tests/experiments/virtual/lossy.toml"
# Student's t, two-sided 95 %, by degrees of freedom.
T95 = [math.nan, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145]
SHORT = [("continental-us", "1f1b", "none"), ("continental-us", "1f1b", "diloco"), ("transpacific", "gpipe", "none"),
         ("transpacific", "gpipe", "streaming"), ("global", "1f1b", "diloco"), ("worst-case", "gpipe", "none")]


def play(tests, cell, spec=SPEC, more=()):
    """The rows of virtual_run, and what it says of frames."""
    profile, schedule, outer = cell
    links = TOP / profile if profile.endswith(".toml") else profile
    sets = [f"net.profile={links}", *SCHEDULES[schedule], *(OUTERS | MORE_OUTERS)[outer], *more]
    words = ["timeout", "600", TOP / "tests/netem/guest/run_guest.sh", "--virtual", tests / "virtual_run", spec, *sets]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode == 77:
        sys.exit(done.stdout.strip())
    rows = re.findall(r"^(\d+),(\d+),([\d.]+),([\d.]+)$", done.stdout, re.M)
    frames = re.search(r"^frames (\d+) dropped (\d+) lost (\d+)$", done.stdout, re.M)
    if done.returncode or not rows or not frames:
        sys.exit(f"{' '.join(map(str, words))}: exit status {done.returncode}\n{done.stdout[-2000:]}")
    return [(int(s), int(r), float(m), float(e)) for s, r, m, e in rows], [int(n) for n in frames.groups()]


def times(rows, column):
    """Of the whole run, and of each step of rank 0."""
    ends = [0.0] + [row[column] for row in rows if row[1] == 0]
    return max(row[column] for row in rows), [b - a for a, b in zip(ends, ends[1:])]


def mean_interval(values):
    """Mean, and how far its 95 % interval reaches to either side."""
    return statistics.mean(values), T95[len(values) - 1] * statistics.stdev(values) / math.sqrt(len(values))


def lossy_links(folder, profile, per_cent):
    """A topology file of the lossy links' kind, where a guest can read it."""
    text = LOSSY_LINKS.read_text().replace('"continental-us"', f'"{profile}"').replace('"0.1%"', f'"{per_cent}%"')
    path = pathlib.Path(folder) / f"{profile}-{per_cent}.toml"
    path.write_text(text)
    return str(path)


def lossy_grid(tests, only, seeds):
    """Prints each cell's means over seeds; returns those whose intervals do not overlap."""
    cells = [cell for cell in LOSSY if re.search(only, ", ".join(cell))]
    if not cells:
        sys.exit(f"no cell of --grid lossy matches --only '{only}'")
    print("| links | lost, % | control | run: kernel, engine, s | step: kernel, engine, s | step with an exchange: kernel, "
          "engine, s | lost |\n|---|---|---|---|---|---|---|", flush=True)
    apart = []
    # Not in /tmp, of which a guest has its own.
    with tempfile.TemporaryDirectory(dir=tests) as folder, \
            concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        def run(profile, per_cent, control, seed):
            return play(tests, (lossy_links(folder, profile, per_cent), "1f1b", "diloco"),
                        more=[f"net.congestion_control={control}", f"seed={seed}"])

        runs = [[pool.submit(run, *cell, seed) for seed in range(1, seeds + 1)] for cell in cells]
        for cell, cell_runs in zip(cells, runs):
            figures = [[], [], []]  # of a seed: run, step, step with an exchange; each kernel and engine
            lost = 0
            for rows, frames in (run.result() for run in cell_runs):
                lost += frames[2] / seeds
                both = [times(rows, column) for column in (2, 3)]
                figures[0].append([total for total, _ in both])
                figures[1].append([statistics.mean(s for n, s in enumerate(steps, 1) if n % 5 and n > 2)
                                   for _, steps in both])
                figures[2].append([statistics.mean(steps[4::5]) for _, steps in both])
            row = f"| {' | '.join(cell)} |"
            for what, pairs in zip(("run", "step", "step with an exchange"), figures):
                (kernel, wide), (engine, engine_wide) = (mean_interval(values) for values in zip(*pairs))
                row += f" {kernel:.3f} +- {wide:.3f}, {engine:.3f} +- {engine_wide:.3f} |"
                if abs(kernel - engine) > wide + engine_wide:
                    apart.append(f"{', '.join(cell)}: {what}: {100 * math.log(kernel / engine):+.1f} %")
            print(f"{row} {lost:.0f} |", flush=True)
    return apart


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", default=str(TOP / "build/tests"))
    parser.add_argument("--grid", choices=["short", "all", "more", "lossy"], default="short")
    parser.add_argument("--only", default="")
    parser.add_argument("--seeds", type=int, default=8, choices=range(2, len(T95) + 1), metavar="N")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    tests = pathlib.Path(arguments.tests).resolve()
    if arguments.grid == "lossy":
        apart = lossy_grid(tests, arguments.only, arguments.seeds)
        if arguments.check and apart:
            sys.exit("intervals that do not overlap: " + "; ".join(apart))
        return
    cells = {"short": SHORT, "more": MORE}.get(arguments.grid, [*itertools.product(PROFILES, SCHEDULES, OUTERS)])
    cells = [cell for cell in cells if re.search(arguments.only, ", ".join(cell))]
    if not cells:
        sys.exit(f"no cell of --grid {arguments.grid} matches --only '{arguments.only}'")
    print("| links | schedule | outer | run: engine, kernel, s | kernel over engine, % | median step, % | frames dropped |")
    print("|---|---|---|---|---|---|---|", flush=True)
    beyond, apart = [], []
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for cell, (rows, frames) in zip(cells, pool.map(lambda cell: play(tests, cell), cells)):
            (measured, steps), (engine, engine_steps) = times(rows, 2), times(rows, 3)
            off = math.log(measured / engine)
            step = math.log(statistics.median(steps[2:]) / statistics.median(engine_steps[2:]))
            apart.append(abs(off))
            bar = BBR_BAR if "bbr" in cell[2] else TAIL.get(cell[0], BAR) if frames[1] else BAR
            if abs(off) > bar:
                beyond.append(f"{', '.join(cell)}: {100 * off:+.2f} %")
            print(f"| {' | '.join(cell)} | {engine:.3f}, {measured:.3f} | {100 * off:+.2f} | {100 * step:+.2f} | "
                  f"{frames[1]} of {frames[0]} |", flush=True)
    print(f"\n{sum(a <= BAR for a in apart)} of {len(apart)} cells within {100 * BAR:.0f} %, "
          f"the median {100 * statistics.median(apart):.2f} % apart")
    if arguments.check and beyond:
        sys.exit("beyond what is held of them: " + "; ".join(beyond))


if __name__ == "__main__":
    main()
