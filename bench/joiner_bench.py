"""Times how a group joins a training over shaped links: its state from one member, or from all through a swarm.

usage: joiner_bench.py join [--profile P]... [--groups N]... [--stages S] [--rounds R] [--joiners J]
       joiner_bench.py beside [--groups N] [--rounds R] [--limits mbit,..]

Each line is two runs of `longhaul run` that differ in outer.joiner_source: the last J groups (1) are killed every other
round and take over the state of the others R times, at once. What is timed is the program itself, hashing, files and all.

`join`: a mesh of the profile's links. Seconds from the word that the group may join (written right after the outer step)
to its state, and to the end of its first step; medians over joins and stages. Beside them the closed form
(`longhaul weights estimate`), which knows links alone.

`beside`: what the others feel. Every worker sits behind an access line of 100 Mbit/s both ways, 65 ms apart, so that a
giver's messages to its pipeline (0.8 MB each) and what it gives share a line. Compute is injected, so that no core is
short; there are no moments then. Medians of the members' step times in rounds in which nobody joins, and in those in
which one does, until it has its state; and how long the members waited for it at the next outer step; with each of the --limits (Mbit/s) on what a giver sends.

Run it as root from the repository's folder, with build/longhaul built and the machine otherwise idle.
"""
import re
import sqlite3
import statistics
import subprocess
import tempfile

from join_bench import LONGHAUL, PROFILES, access_file, estimate, main

INNER_STEPS = 8

SPEC = """
seed = 1
[model]
kind = "gpt"
blocks = {blocks}
width = {width}
heads = 4
context = 64
vocab = 256
[data]
source = "headers"
[train]
steps = {steps}
batch_rows = {rows}
microbatches = {microbatches}
lr = 1e-3
[schedule]
kind = "1f1b"
stages = {stages}
[boundary]
forward = "none"
backward = "none"
{compute}[outer]
groups = {groups}
inner_steps = {inner_steps}
codec = "int4-b64-h64+ef"
on_group_loss = "continue"
joiner_source = "{source}"
{limit}round_deadline_s = 300
[net]
transport = "ucx"
profile = "{profile}"
peer_deadline_s = 30
out_of_bounds = "flag"
slow_start_after_idle = false
[eval]
rows = 8
"""
COMPUTE = "[compute]\nforward_s = 0.02\nbackward_s = 0.04\noptimizer_s = 0.01\n"
KILL = '[[fault]]\nat_step = {step}\nwhat = "kill"\nwhere = "group {group} stage 0"\n'


class Run:
    """One run whose last groups are killed in rounds 1, 3, ...; they join after them."""

    def __init__(self, folder, rounds, source, **figures):
        self.groups, self.stages = figures["groups"], figures["stages"]
        self.members = self.groups - figures.get("joiners", 1)
        self.joins = [INNER_STEPS * (2 * i + 1) for i in range(rounds)]
        results, spec = f"{folder}/{source}", f"{folder}/{source}.toml"
        with open(spec, "w") as f:
            f.write(SPEC.format(steps=2 * INNER_STEPS * rounds, inner_steps=INNER_STEPS, source=source, **figures))
            for step in self.joins:
                for group in range(self.members, self.groups):
                    f.write(KILL.format(step=step - INNER_STEPS + 2, group=group))
        done = subprocess.run([LONGHAUL, "run", spec, "--results", results], capture_output=True, text=True)
        self.db = sqlite3.connect(f"{results}/longhaul.sqlite")
        back = self.one("SELECT COUNT(*) FROM faults WHERE what = 'kill' AND recovered_step IS NOT NULL")
        if back != rounds * (self.groups - self.members):
            raise RuntimeError(done.stdout[-3000:] + done.stderr[-3000:])

    def one(self, sql, *values):
        return self.db.execute(sql, values).fetchone()[0]

    def joined(self):
        """(seconds to the state, to the end of the first step) of every join and worker."""
        times = []
        for step in self.joins:
            for rank in range(self.members * self.stages, self.groups * self.stages):
                said = self.one("SELECT value FROM run_facts WHERE key = ?", f"joined_after_step_{step}_rank_{rank}")
                took = float(re.search(r" in ([0-9.]+) s", said).group(1))
                first = self.one("SELECT wall_s FROM steps WHERE step = ? AND group_index = ? AND stage = ?",
                                 step + 1, rank // self.stages, rank % self.stages)
                times.append((took, took + first))
        return times

    def state_mb(self):
        """Of one stage: what the joiner took, or, from one member, what its interface counted."""
        said = self.one("SELECT value FROM run_facts WHERE key LIKE 'joined_after_step_%' LIMIT 1")
        return int((re.search(r"took ([0-9]+) bytes", said) or re.search(r"counted ([0-9]+)", said)).group(1)) / 1e6

    def steps(self):
        """Wall seconds of members' steps without an outer one: (while the last group takes its state, while it is there)."""
        joining, quiet = [], []
        for group in range(self.members):
            for stage in range(self.stages):
                rows = dict(self.db.execute("SELECT step, wall_s FROM steps WHERE group_index = ? AND stage = ? AND NOT outer_synced",
                                            (group, stage)).fetchall())
                for i, step in enumerate(self.joins):
                    left = self.joined()[i * self.stages][0]
                    for next_step in range(step + 1, step + INNER_STEPS):
                        if left > 0:
                            joining.append(rows[next_step])
                        left -= rows[next_step]
                quiet += [wall for step, wall in rows.items() if step > 2 and (step - 1) // INNER_STEPS % 2 == 0]
        return joining, quiet

    def waited(self):
        """At the outer steps that follow a join."""
        return [self.one("SELECT waited_s FROM rounds WHERE last_step = ?", step + INNER_STEPS) for step in self.joins]


def medians(times):
    return [statistics.median(column) for column in zip(*times)]


def join(arguments):
    print("| profile | groups | state, MB | from one member, s (closed form) | to its first step | "
          "from all | to its first step | spread of it | one / all |")
    print("|---|---|---|---|---|---|---|---|---|")
    for profile in arguments.profile or list(PROFILES):
        for groups in arguments.groups or [2, 4, 8]:
            with tempfile.TemporaryDirectory() as folder:
                runs = [Run(folder, arguments.rounds, source, profile=profile, groups=groups, stages=arguments.stages,
                            joiners=arguments.joiners, rows=1, microbatches=1, width=256, blocks=4 * arguments.stages, compute="", limit="")
                        for source in ("member", "swarm")]
                (one, one_first), (all_, all_first) = [medians(run.joined()) for run in runs]
                mb = runs[1].state_mb()
                of_all, copy = estimate(mb, groups - arguments.joiners, profile)
                firsts = [first for _, first in runs[1].joined()]
                print(f"| {profile} | {groups} | {mb:.1f} | {one:.2f} ({copy:.2f}) | {one_first:.2f} | {all_:.2f} ({of_all:.2f}) | "
                      f"{all_first:.2f} | {max(firsts) - min(firsts):.2f} | {one_first / all_first:.2f} |", flush=True)


def beside(arguments):
    groups = (arguments.groups or [4])[0]
    print("| state from | MB | members' step, median s: nobody joins | one joins | longest | joiner's state, s | "
          "wait at the next outer step |")
    print("|---|---|---|---|---|---|---|")
    for source, limit in [("member", "none")] + [("swarm", limit) for limit in arguments.limits.split(",")]:
        with tempfile.TemporaryDirectory() as folder:
            run = Run(folder, arguments.rounds, source, profile=access_file(folder, [f"n{i}" for i in range(2 * groups)]), groups=groups, stages=2,
                      rows=32, microbatches=4, width=384, blocks=8, compute=COMPUTE,
                      limit="" if limit == "none" else f"joiner_up_mbit = {limit}\n")
            joining, quiet = run.steps()
            who = "one member" if source == "member" else f"all, limit {limit}"
            print(f"| {who} | {run.state_mb():.1f} | {statistics.median(quiet):.3f} | "
                  f"{statistics.median(joining):.3f} | {max(joining):.3f} | {medians(run.joined())[0]:.2f} | "
                  f"{statistics.median(run.waited()):.2f} |", flush=True)


if __name__ == "__main__":
    main(__doc__, join, beside, "none,20,10", {"--stages": (int, 1), "--joiners": (int, 1)})
