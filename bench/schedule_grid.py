"""Which schedule for which link: every schedule of `longhaul schedule best` over every profile, for a spec's ranks.
Writes FOLDER/grid.csv (a row a profile, engine, schedule, chunks and depth), FOLDER/grid.svg, and prints the table of
docs/results/schedules in Markdown.

Usage: schedule_grid.py --longhaul build/longhaul --spec experiments/specs/schedules.toml --out docs/results/schedules

Times are P2's, which is arithmetic: the same on every machine. Needs matplotlib."""

import argparse
import csv
import json
import pathlib
import subprocess

# A rank's forward and backward of a micro-batch; "cpu" runs a backward pass whole, "aten" may split it.
COMPUTE = ["--set", "compute=measured", "--forward-ms", "20", "--backward-ms", "40"]
ENGINES = ["cpu", "aten"]
# From short round trips to long ones, as docs/netem.md has them.
PROFILES = ["colocated", "regional", "same-country", "continental-us", "transatlantic", "simulator-default",
            "transpacific", "global", "worst-case"]
FIELDS = ["profile", "engine", "kind", "chunks", "depth", "step_s", "without_links_s", "peak_activations",
          "worker_bytes", "messages_per_step"]
# What the table shows: name, engine, what is said in its head.
COLUMNS = [("gpipe", "cpu"), ("1f1b", "cpu"), ("1f1b-deep", "cpu"), ("interleaved-1f1b", "cpu"), ("looped-bfs", "cpu"),
           ("zb-h1", "aten"), ("zb-v", "aten")]


def rows_of(longhaul, spec):
    for profile in PROFILES:
        for engine in ENGINES:
            out = subprocess.run([longhaul, "schedule", "best", spec, "--links", profile, "--json", "--set",
                                  f"model.engine={engine}", *COMPUTE], check=True, capture_output=True, text=True)
            for found in json.loads(out.stdout)["schedules"]:
                yield {"profile": profile, "engine": engine, **found}


def best(rows, profile, kind, engine):
    """The fastest chunks and depth; of equal times (within 1 %) what takes least memory."""
    own = [r for r in rows if (r["profile"], r["kind"], r["engine"]) == (profile, kind, engine)]
    least = min(r["step_s"] for r in own)
    return min((r for r in own if r["step_s"] <= 1.01 * least), key=lambda r: (r["worker_bytes"], r["step_s"]))


def cell(row):
    shape = ""
    if row["kind"] == "1f1b-deep":
        shape = f", d = {row['depth']}"
    elif row["chunks"] > 1 and row["kind"] != "zb-v":
        shape = f", v = {row['chunks']}"
    return f"{row['step_s']:.2f} s, {row['worker_bytes'] / 1e6:.0f} MB{shape}"


def table(rows):
    names = [f"`{kind}`" + (", split" if engine == "aten" else "") for kind, engine in COLUMNS]
    lines = ["| links | " + " | ".join(names) + " |", "|" + "---|" * (len(names) + 1)]
    for profile in PROFILES:
        chosen = [best(rows, profile, kind, engine) for kind, engine in COLUMNS]
        least = min(r["step_s"] for r in chosen)
        cells = [f"**{cell(r)}**" if r["step_s"] <= 1.01 * least else cell(r) for r in chosen]
        lines.append(f"| {profile} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def plot(rows, path):
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "schedules"
    matplotlib.rcParams["svg.fonttype"] = "none"
    import matplotlib.pyplot as plt

    figure, (times, memory) = plt.subplots(1, 2, figsize=(11, 4.4), gridspec_kw={"width_ratios": [2, 1]})
    markers = "osD^vPX"
    for (kind, engine), marker in zip(COLUMNS, markers):
        chosen = [best(rows, profile, kind, engine) for profile in PROFILES]
        label = kind + (", split" if engine == "aten" else "")
        times.plot(range(len(PROFILES)), [r["step_s"] for r in chosen], marker=marker, label=label)
        memory.plot([r["worker_bytes"] / 1e6 for r in chosen], [r["step_s"] for r in chosen], marker=marker,
                    linestyle="none")
    times.set_yscale("log")
    times.set_xticks(range(len(PROFILES)), PROFILES, rotation=30, ha="right")
    times.set_ylabel("step by P2, s")
    times.legend(fontsize=8)
    memory.set_yscale("log")
    memory.set_xlabel("largest worker, MB")
    memory.set_title("every profile", fontsize=9)
    times.set_title("four ranks, M = 16; F 20 ms, B 40 ms a rank and micro-batch", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--longhaul", default="build/longhaul")
    parser.add_argument("--spec", default="experiments/specs/schedules.toml")
    parser.add_argument("--out", default="docs/results/schedules")
    arguments = parser.parse_args()
    rows = list(rows_of(arguments.longhaul, arguments.spec))
    folder = pathlib.Path(arguments.out)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "grid.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows({**r, "step_s": f"{r['step_s']:.6f}", "without_links_s": f"{r['without_links_s']:.6f}"}
                         for r in rows)
    plot(rows, folder / "grid.svg")
    print(table(rows))


main()
