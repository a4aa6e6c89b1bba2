#!/usr/bin/env python3
"""The first two choices of a plan run for real, measured steps beside predicted ones.

    scripts/plan_check.py [--longhaul build/longhaul] [NAME ...]

For each link matrix (default: the three of examples/plan) `longhaul plan --write` makes the two runs: compute is slept,
links are shaped as the matrix says, each rank on its node. Prints a table in Markdown. Steps are the wall time of a run
from one step to another by the record, exchanges included, over whole rounds behind the first third. Beside them the share of the training in which the
worker that waited most for a core did: from 0.05 on no step is a quiet machine's.
"""

import argparse
import json
import math
import os
import sqlite3
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ONE_GROUP = ["outer.groups=1", "train.batch_rows=16", "outer.inner_steps=0", "plan.inner_steps=[0]", "plan.algorithms=[\"diloco\"]"]
# Matrix and what its run has other than examples/plan/plan.toml.
EXAMPLES = {
    "two-sites": [],
    "slow-node": ONE_GROUP + ["schedule.stages=4"],
    "home-ring": ONE_GROUP + ["schedule.stages=5", "model.blocks=10"],
}


def measured_step(results, timed):
    """Seconds of a step: from the end of step `timed` to that of the last, of the rank that is last there."""
    record = sqlite3.connect(os.path.join(results, "longhaul.sqlite"))
    rows = record.execute("SELECT step, group_index, stage, wall_s FROM steps ORDER BY step").fetchall()
    ended = {}
    for step, group, stage, wall in rows:
        ended.setdefault((group, stage), []).append(wall)
    spans = [sum(walls[timed:]) / (len(walls) - timed) for walls in ended.values()]
    return max(spans)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--longhaul", default=os.path.join(HERE, "build", "longhaul"))
    parser.add_argument("names", nargs="*", default=list(EXAMPLES), help="of " + ", ".join(EXAMPLES))
    options = parser.parse_args()
    print("| links | choice | placement | predicted, s | measured, s | ln(measured / predicted) | waited for a core |")
    print("|---|---|---|---|---|---|---|")
    for name in options.names:
        if name not in EXAMPLES:
            sys.exit(f"plan_check: no example '{name}'; there are: {', '.join(EXAMPLES)}")
        check(options.longhaul, name)


def check(longhaul, name):
    with tempfile.TemporaryDirectory() as folder:
        command = [longhaul, "plan", "examples/plan/plan.toml", "--links", f"examples/plan/{name}.json",
                   "--write", folder, "--json"]
        for change in EXAMPLES[name]:
            command += ["--set", change]
        plan = json.loads(subprocess.run(command, cwd=HERE, check=True, capture_output=True, text=True).stdout)
        for i in (1, 2):
            one(longhaul, name, folder, i, plan["rows"][i - 1])


def one(longhaul, name, folder, i, row):
    results = os.path.join(folder, f"results-{i}")
    command = [longhaul, "run", os.path.join(folder, f"choice-{i}.toml"), "--results", results, "--quiet",
               "--set", "net.emulator=tap", "--set", "net.out_of_bounds=flag"]
    run = subprocess.run(command, cwd=HERE, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"plan_check: {' '.join(command)}: {run.stderr.strip()}")
    record = sqlite3.connect(os.path.join(results, "longhaul.sqlite"))
    steps, = record.execute("SELECT MAX(step) FROM steps").fetchone()
    waited, = record.execute("SELECT MAX(value) FROM run_facts WHERE key = 'core_wait_share'").fetchone()
    measured, predicted = measured_step(results, steps // 3), row["step_s"]
    h = f", H = {row['inner_steps']}" if row["algorithm"] == "diloco" else ""
    outer = f", {row['algorithm']}{h}" if row["algorithm"] else ""
    nodes = " / ".join(" ".join(group) for group in row["placement"]["groups"])
    print(f"| {name} | {row['schedule']}, {row['codecs']}{outer} | {nodes} | {predicted:.4f} | {measured:.4f} | "
          f"{math.log(measured / predicted):+.3f} | {waited or '-'} |", flush=True)


if __name__ == "__main__":
    main()
