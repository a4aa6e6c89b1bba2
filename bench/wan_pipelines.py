"""The same PP x DiLoCo training over the same shaped links by three ways, in turn: torch.distributed.pipelining with
gloo, longhaul uncompressed, longhaul with its default pair of codecs. A row a profile: median seconds of a step
without outer synchronisation (the median of so many rounds), and how many times longhaul's gloo's is.

Usage: wan_pipelines.py [--profiles P,P] [--rounds R] [--longhaul build/longhaul] [--python PYTHON]

Two groups of two stages, a model small enough that the links count. Wants an idle machine with four cores: with fewer,
compute is what is measured, and the table says so."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SHAPE = {"blocks": 2, "width": 64, "heads": 4, "context": 128, "vocab": 256, "rows": 32}
STAGES, GROUPS, MICROBATCHES, STEPS, INNER = 2, 2, 4, 40, 10
SPEC = f"""# Question: PP x DiLoCo on shaped links, to be compared with torch.distributed.pipelining over gloo.
seed = 1
[model]
kind = "gpt"
blocks = {SHAPE["blocks"]}
width = {SHAPE["width"]}
heads = {SHAPE["heads"]}
context = {SHAPE["context"]}
vocab = {SHAPE["vocab"]}
[data]
source = "headers"
[train]
steps = {STEPS}
batch_rows = {SHAPE["rows"]}
microbatches = {MICROBATCHES}
lr = 3e-3
[schedule]
kind = "1f1b"
stages = {STAGES}
[boundary]
forward = "none"
backward = "none"
[outer]
groups = {GROUPS}
inner_steps = {INNER}
codec = "none"
[net]
transport = "ucx"
profile = "colocated"
[eval]
rows = 8
"""
PAIR = ["--set", "boundary.forward=int4-b64-h64", "--set", "boundary.backward=int8-b64"]


def called(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def ours(arguments, profile, folder, codecs):
    out = called([arguments.longhaul, "run", folder / "wan.toml", "--json", "--set", f"net.profile={profile}",
                  "--results", folder / "ours", *codecs])
    return json.loads(out)["step_time"]["measured_s"]["value"]


def gloo(arguments, profile, folder):
    out = called([arguments.longhaul, "launch", "-n", str(STAGES * GROUPS), "--profile", profile, "--probe", "quick",
                  "--raw", "--results", folder / "gloo", "--", arguments.python, HERE / "pipelined_gpt.py", "--backend",
                  "gloo", "--groups", str(GROUPS), "--inner-steps", str(INNER), "--steps", str(STEPS), "--microbatches",
                  str(MICROBATCHES), "--shape", json.dumps(SHAPE)])
    return json.loads(next(line for line in out.splitlines() if line.startswith('{"step_s"')))["step_s"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--profiles", default="regional,continental-us,global")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--longhaul", default="build/longhaul")
    parser.add_argument("--python", default=sys.executable)
    arguments = parser.parse_args()
    if (cores := len(os.sched_getaffinity(0))) < STAGES * GROUPS:
        print(f"{cores} cores for {STAGES * GROUPS} ranks: they wait for each other's compute, too\n")
    print("| links | gloo, s | longhaul raw, s | default pair, s | gloo / raw | gloo / pair |\n|---|---|---|---|---|---|")
    for profile in arguments.profiles.split(","):
        times = {"gloo": [], "raw": [], "pair": []}
        for _ in range(arguments.rounds):
            with tempfile.TemporaryDirectory() as name:
                folder = pathlib.Path(name)
                (folder / "wan.toml").write_text(SPEC)
                times["gloo"].append(gloo(arguments, profile, folder))
                times["raw"].append(ours(arguments, profile, folder, []))
                times["pair"].append(ours(arguments, profile, folder, PAIR))
        of = {way: statistics.median(seconds) for way, seconds in times.items()}
        print(f"| {profile} | {of['gloo']:.3f} | {of['raw']:.3f} | {of['pair']:.3f} | {of['gloo'] / of['raw']:.2f} | "
              f"{of['gloo'] / of['pair']:.2f} |", flush=True)


main()
