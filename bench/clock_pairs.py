#!/usr/bin/env python3
"""One spec on the simulated clock and over shaped links: losses compared bit by bit, times side by side.

Usage: clock_pairs.py [--longhaul build/longhaul] [--spec experiments/specs/clock-pair.toml]
                      [--profiles continental-us,transpacific,global] [--schedules gpipe,1f1b]

Three runs a row: on the simulated clock; over `tap` with compute injected, whose times are compared; and
over `tap` with compute measured, which trains, and whose losses are. Prints a table in Markdown. It asks
for a machine that has nothing else to do: times of the second run are real.
"""

import argparse
import sqlite3
import statistics
import subprocess
import sys
import tempfile


def run(arguments, results, sets, more=()):
    command = [arguments.longhaul, "run", arguments.spec, "--results", results, *more]
    for entry in sets:
        command += ["--set", entry]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0 and "trained to the end" not in done.stdout + done.stderr:
        sys.exit(f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return sqlite3.connect(results + "/longhaul.sqlite")


def step_and_round(walls, inner_steps):
    """Median step without an outer step; H of them and what outer steps took beyond that at the mean."""
    plain = statistics.median(w for s, w in walls if s % inner_steps and s > 2)
    beyond = [w - plain for s, w in walls if s % inner_steps == 0]
    return plain, inner_steps * plain + statistics.mean(beyond)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longhaul", default="build/longhaul")
    parser.add_argument("--spec", default="experiments/specs/clock-pair.toml")
    parser.add_argument("--profiles", default="continental-us,transpacific,global")
    parser.add_argument("--schedules", default="gpipe,1f1b")
    parser.add_argument("--inner-steps", type=int, default=5)
    arguments = parser.parse_args()
    print("| links | schedule | losses alike | step: simulated, tap, s | tap over simulated, % "
          "| round: simulated, tap, s | tap over simulated, % |")
    print("|---|---|---|---|---|---|---|")
    losses = "select step, group_index, stage, loss_nat, parameter_hash from steps order by 1, 2, 3"
    for profile in arguments.profiles.split(","):
        for schedule in arguments.schedules.split(","):
            sets = [f"net.profile={profile}", f"schedule.kind={schedule}",
                    f"outer.inner_steps={arguments.inner_steps}"]
            with tempfile.TemporaryDirectory() as folder:
                simulated = run(arguments, folder + "/simulated", sets, ["--clock", "simulated"])
                injected = run(arguments, folder + "/injected", sets + ["net.emulator=tap"])
                trained = run(arguments, folder + "/trained",
                              sets + ["net.emulator=tap", "compute=measured", "net.out_of_bounds=flag"])
                ours, theirs = (db.execute(losses).fetchall() for db in (simulated, trained))
                alike = sum(a == b for a, b in zip(ours, theirs))
                ends = simulated.execute("select step, simulated_s from simulated_times where group_index = 0 "
                                         "and stage = 0 order by step").fetchall()
                before = [0.0] + [s for _, s in ends]
                ours = step_and_round([(n, s - b) for (n, s), b in zip(ends, before)], arguments.inner_steps)
                workers = injected.execute("select distinct group_index, stage from steps").fetchall()
                each = [step_and_round(
                    injected.execute("select step, wall_s from steps where group_index = ? and stage = ?",
                                     worker).fetchall(), arguments.inner_steps) for worker in workers]
                real = [statistics.mean(t) for t in zip(*each)]
                cells = [f"{a:.3f}, {b:.3f} | {100 * (b / a - 1):+.1f}" for a, b in zip(ours, real)]
                print(f"| {profile} | {schedule} | {alike} of {len(theirs)} | {cells[0]} | {cells[1]} |",
                      flush=True)


if __name__ == "__main__":
    main()
