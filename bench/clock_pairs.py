#!/usr/bin/env python3
"""One spec in three places: on the simulated clock, over `tap`, and in guests with the kernel's own netem.

Usage: clock_pairs.py [--longhaul build/longhaul] [--spec experiments/specs/clock-pair.toml] [--guest]
                      [--profiles continental-us,transpacific,global] [--schedules gpipe,1f1b]
                      [--losses [--steps 6]]

Losses and hashes of parameters are compared bit by bit, times side by side, in a table in Markdown. A row is
four runs or five: on the simulated clock; over `tap` with compute injected, whose times are compared;
over `tap` with compute measured, which trains, and whose losses are; with --guest the same training over the kernel's
netem in a User Mode Linux guest, and the program of the run on the kernel whose time is virtual
(bench/virtual_grid.py). --losses: losses alone, without the runs for times; exit status 1 where one differs. Times
over `tap` are real: it asks for a machine that has nothing else to do.
"""

import argparse
import json
import os
import pathlib
import sqlite3
import statistics
import subprocess
import sys
import tempfile

import virtual_grid

TOP = pathlib.Path(__file__).resolve().parent.parent
ROWS = "select step, group_index, stage, loss_nat, parameter_hash from steps order by 1, 2, 3"
TRAINS = ["compute=measured", "net.out_of_bounds=flag"]
# The guest's kernel keeps no state of vectors of 512 bits, so torch is told to use none; bits are the same.
NARROW = ["ATEN_CPU_CAPABILITY=avx2", "MKL_ENABLE_INSTRUCTIONS=AVX2", "ONEDNN_MAX_CPU_ISA=AVX2"]
IN_GUEST = """import json, sqlite3, subprocess, sys
done = subprocess.run(sys.argv[1:] + ["--results", "/tmp/r"], capture_output=True, text=True)
if done.returncode != 0 and "trained to the end" not in done.stdout + done.stderr:
    sys.exit(done.stdout[-1000:] + done.stderr[-2000:])
print("ROWS " + json.dumps(sqlite3.connect("/tmp/r/longhaul.sqlite").execute(%r).fetchall()))""" % ROWS


def command_of(arguments, sets, more=()):
    words = [str(arguments.longhaul), "run", str(arguments.spec), *more]
    for entry in sets:
        words += ["--set", entry]
    return words


def run(arguments, results, sets, more=()):
    command = command_of(arguments, sets, ["--results", results, *more])
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0 and "trained to the end" not in done.stdout + done.stderr:
        sys.exit(f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return sqlite3.connect(results + "/longhaul.sqlite")


def rows_in_guest(arguments, sets):
    """Of a training over the kernel's netem in a guest; its one processor takes minutes where ours are busy."""
    words = [TOP / "tests/netem/guest/run_guest.sh", "env", *NARROW, sys.executable, "-c", IN_GUEST,
             *command_of(arguments, sets + TRAINS + ["net.emulator=netem"])]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          env={**os.environ, "GUEST_MEMORY": "3G"})
    said = [line for line in done.stdout.splitlines() if line.startswith("ROWS ")]
    if done.returncode == 77 or not said:
        print(done.stdout.strip()[-3000:])
        sys.exit(done.returncode or 1)
    return [tuple(row) for row in json.loads(said[0][5:])]


def step_and_round(walls, inner_steps):
    """Median step without an outer step; H of them and what outer steps took beyond that at the mean."""
    plain = statistics.median(w for s, w in walls if s % inner_steps and s > 2)
    beyond = [w - plain for s, w in walls if s % inner_steps == 0]
    return plain, inner_steps * plain + statistics.mean(beyond)


def step_and_round_of_ends(ends, inner_steps):
    return step_and_round([(n + 1, b - a) for n, (a, b) in enumerate(zip([0.0] + ends, ends))], inner_steps)


def step_and_round_of_workers(db, inner_steps):
    workers = db.execute("select distinct group_index, stage from steps").fetchall()
    each = [step_and_round(db.execute("select step, wall_s from steps where group_index = ? and stage = ?",
                                      worker).fetchall(), inner_steps) for worker in workers]
    return [statistics.mean(t) for t in zip(*each)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longhaul", default=TOP / "build/longhaul", type=pathlib.Path)
    parser.add_argument("--spec", default=TOP / "experiments/specs/clock-pair.toml", type=pathlib.Path)
    parser.add_argument("--tests", default=TOP / "build/tests", type=pathlib.Path)
    parser.add_argument("--profiles", default="continental-us,transpacific,global")
    parser.add_argument("--schedules", default="gpipe,1f1b")
    parser.add_argument("--inner-steps", type=int, default=5)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--guest", action="store_true")
    parser.add_argument("--losses", action="store_true")
    arguments = parser.parse_args()
    arguments.longhaul, arguments.spec = arguments.longhaul.resolve(), arguments.spec.resolve()
    places = ["tap"] + ["guest"] * arguments.guest
    times = "" if arguments.losses else "".join(
        f" {what}: simulated, {place}, s | {place} over simulated, % |" for place in places for what in ("step", "round"))
    print(f"| links | schedule | losses alike: {', '.join(places)} |{times}")
    print("|---|---|---|" + "---|" * times.count("|"))
    different = False
    for profile in arguments.profiles.split(","):
        for schedule in arguments.schedules.split(","):
            sets = [f"net.profile={profile}", f"schedule.kind={schedule}", f"outer.inner_steps={arguments.inner_steps}"]
            sets += [f"train.steps={arguments.steps}"] * bool(arguments.steps)
            with tempfile.TemporaryDirectory() as folder:
                simulated = run(arguments, folder + "/simulated", sets, ["--clock", "simulated"])
                ours = simulated.execute(ROWS).fetchall()
                theirs = [run(arguments, folder + "/trained", sets + TRAINS + ["net.emulator=tap"])
                          .execute(ROWS).fetchall()]
                if arguments.guest:
                    theirs.append(rows_in_guest(arguments, sets))
                alike = [sum(a == b for a, b in zip(ours, rows)) for rows in theirs]
                different |= any(n != len(ours) for n in alike) or not ours
                row = f"| {profile} | {schedule} | {', '.join(map(str, alike))} of {len(ours)} |"
                if not arguments.losses:
                    ends = [s for _, s in simulated.execute(
                        "select step, simulated_s from simulated_times where group_index = 0 and stage = 0 order by 1")]
                    injected = run(arguments, folder + "/injected", sets + ["net.emulator=tap"])
                    pairs = [*zip(step_and_round_of_ends(ends, arguments.inner_steps),
                                  step_and_round_of_workers(injected, arguments.inner_steps))]
                    if arguments.guest:
                        # The clock of links whose frames netem cuts to the MTU, and the kernel on them.
                        played, _ = virtual_grid.play(arguments.tests.resolve(), (profile, schedule, "diloco"),
                                                      arguments.spec, sets)
                        pairs += zip(*(step_and_round_of_ends([row[column] for row in played if row[1] == 0],
                                                              arguments.inner_steps) for column in (3, 2)))
                    for ours, theirs in pairs:
                        row += f" {ours:.3f}, {theirs:.3f} | {100 * (theirs / ours - 1):+.1f} |"
                print(row, flush=True)
    if different:
        sys.exit("losses or parameters differ")


if __name__ == "__main__":
    main()
