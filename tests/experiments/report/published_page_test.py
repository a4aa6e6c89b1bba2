"""docs/results/published: what papers printed beside what the product computes.

    published_page_test.py FOLDER LONGHAUL SPECS           recomputes the cells at 90 %, and the pipeline's
    published_page_test.py FOLDER LONGHAUL SPECS --all     recomputes all; two minutes of one core, as --write
    published_page_test.py FOLDER LONGHAUL SPECS --write   writes our columns into the CSV files, prints the tables

Both compare the page's tables and figures with the files.

A published rate is a point of a grid of rates, a factor of 10^(4/49) = 1.207 apart. Ours is the least point of that
grid at which the simulated clock of `longhaul plan` reaches the utilisation.
"""

import csv
import json
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from outer_page_test import text_of

GRID = [10 ** (4 * k / 49 - 1) for k in range(50)]  # Gbit/s, 0.1 to 1000
BEYOND = len(GRID)  # "1000.0+": no point of the grid is enough
# Published rates carry payload alone, a link's rate Ethernet frames; no link is faster than 1000 Gbit/s.
WIRE_FACTOR, MOST_MBIT = 1514 / 1448, 1e6
FRAGMENT_LAYERS = 3

# blocks and width (of Llama3 its own shape) whose parameters are those of the name within 1 %
SHAPES = {
    "1B": "blocks=24 width=1760 heads=16 vocab=32000",
    "10B": "blocks=48 width=4096 heads=32 vocab=32000",
    "100B": "blocks=108 width=8768 heads=32 vocab=32000",
    "Chinchilla 10B": "blocks=48 width=4096 heads=32 vocab=32000",
    "Llama3 405B": 'kind="llama" blocks=126 width=16384 heads=128 kv_heads=8 hidden=53248 vocab=128256',
    "DeepSeek-V3 671B": "blocks=61 width=30208 heads=128 vocab=129280",
}
METHOD_ROWS = {  # row of a plan that a method is: algorithm, codec
    "dp": ("dp", "bf16"),
    "diloco": ("diloco", "bf16"),
    "streaming": ("streaming", "bf16"),
    "overlapped": ("streaming", "bf16"),
    "overlapped-fp4": ("streaming", "e3m0-b64"),
}


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def published_point(text):
    """The point of the grid that a printed rate is; of rates below 0.5 the print leaves two."""
    if text.endswith("+"):
        return BEYOND
    return min(range(BEYOND), key=lambda k: abs(math.log(GRID[k] / float(text))))


class Product:
    """Runs `longhaul`; equal questions are asked once."""

    def __init__(self, longhaul, specs, scratch):
        self.longhaul, self.specs, self.scratch, self.known, self.calls = longhaul, specs, Path(scratch), {}, 0

    def run(self, *arguments):
        self.calls += 1
        done = subprocess.run([self.longhaul, *arguments, "--json"], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"longhaul {' '.join(map(str, arguments))}: {done.stderr}"
        return json.loads(done.stdout)

    def links(self, nodes, mbit):
        path = self.scratch / f"links-{nodes}-{mbit:.6g}.toml"
        names = "".join(f'[[node]]\nname = "n{i}"\n' for i in range(nodes))
        path.write_text(f'{names}[between]\nprofile = "regional"\nrate_mbit = {mbit!r}\nrtt_ms = 0\n', encoding="utf-8")
        return path

    def plan(self, spec, sets):
        key = (spec, *sets)
        if key not in self.known:
            flags = [flag for value in sets for flag in ("--set", value)]
            self.known[key] = self.run("plan", self.specs / spec, "--rows", "0", *flags)["rows"]
        return self.known[key]

    def utilisation(self, cell, point):
        """Compute seconds of a step over all of them, at a rate of the grid."""
        step_s, method, model = float(cell["step_s"]), cell["method"], cell["model"]
        sets = [f"model.{item}" for item in SHAPES[model].split()]
        sets += [f"compute.forward_s={step_s / 3!r}", f"compute.backward_s={step_s * 2 / 3!r}",
                 f"plan.links={self.links(2, min(MOST_MBIT, 1000 * WIRE_FACTOR * GRID[point]))}"]
        inner = our_inner_steps(cell)
        algorithm, codec = METHOD_ROWS[method]
        if cell["table"] == "4":  # with fragments; one step of overlap, or none
            of_fragments, tau = multiple(100, fragments(model)), 1 if method.startswith("overlapped") else 0
            sets += ['plan.algorithms=["streaming"' + ("]" if tau else ', "diloco", "dp"]'), 'outer.algorithm="streaming"',
                     f"plan.inner_steps=[{of_fragments}" + ("]" if tau else ", 100]"), f"outer.inner_steps={of_fragments}",
                     f"outer.fragments={fragments(model)}", f"outer.overlap_steps={tau}",
                     'plan.outer_codecs=["bf16"' + (', "e3m0-b64"]' if tau else "]")]
        else:
            sets += ["plan.inner_steps=[1, 10, 50, 100, 300]"]
        rows = [row for row in self.plan("utilisation.toml", sets)
                if row["algorithm"] == algorithm and row["outer_codec"] == codec and row["inner_steps"] == inner]
        assert len(rows) == 1, (cell, rows)
        return step_s / rows[0]["step_s"]

    def least_point(self, cell):
        """Searched upwards and downwards from the committed point, or from the published one."""
        wanted = float(cell["utilisation_percent"]) / 100 * (1 - 1e-9)
        point = published_point(cell.get("our_gbps") or cell["published_gbps"])
        while point < BEYOND and self.utilisation(cell, point) < wanted:
            point += 1
        while point > 0 and self.utilisation(cell, point - 1) >= wanted:
            point -= 1
        return point

    def serial_steps(self, compute_s, ratios):
        """Seconds of a step by the planner's additive slots, by link and rows of a micro-batch."""
        parameters, tokens, mfu, stages = 11.377777778e9, 32768, 0.4, 8
        flops = 6 * parameters * tokens / (stages * mfu * compute_s)
        forward, backward = ratios
        rows = self.run("simulate", self.specs / "serial.toml", "--set", f"node.petaflops={flops / 1e15!r}", "--set",
                        f"training.activation_ratio={forward!r}", "--set", f"training.backward_ratio={backward!r}")["rows"]
        steps = [row["step_seconds"] for row in rows]
        places = [(rate, 32 // count) for rate in (500, 1000) for count in (4, 8, 16, 32)]
        assert len(steps) == len(places) and all(row["stages"] == stages for row in rows), rows
        return dict(zip(places, steps))

    def clock_steps(self, compute_s, rate, batch):
        sets = [f"train.microbatches={32 // batch}", f"compute.forward_s={compute_s / 3 * batch / 32!r}",
                f"compute.backward_s={compute_s * 2 / 3 * batch / 32!r}", f"plan.links={self.links(8, rate)}"]
        return {"fp32" if row["codecs"].startswith("none") else "tah": row["step_s"]
                for row in self.plan("pipeline.toml", sets)}


def fragments(model):
    return int(SHAPES[model].split("blocks=")[1].split()[0]) // FRAGMENT_LAYERS


def our_inner_steps(cell):
    """H of the paper; of fragments the nearest multiple of their number, which the product asks for."""
    if cell["method"] == "dp":
        return 0
    inner = int(cell["inner_steps"])
    if METHOD_ROWS[cell["method"]][0] == "diloco":
        return inner
    return multiple(inner, fragments(cell["model"]))


def multiple(number, of):
    return round(number / of) * of


def fill_utilisation(product, cells):
    for cell in cells:
        ours = product.least_point(cell)
        cell["our_inner_steps"] = our_inner_steps(cell) or ""
        cell["our_gbps"] = f"{GRID[ours]:.4g}" if ours < BEYOND else "1000.0+"
        cell["steps_above"] = ours - published_point(cell["published_gbps"])
        cell["hidden_steps"] = cell["steps_above_if_hidden"] = ""
        if cell["method"].startswith("overlapped") or cell["published_gbps"].endswith("+"):
            continue
        # Without delays an exchange takes as long as its bytes: from its seconds at our rate those at the printed one, and
        # from these the compute, in inner steps, that must hide it for the printed utilisation.
        interval = max(1, our_inner_steps(cell)) / (fragments(cell["model"]) if cell["method"] == "streaming" else 1)
        at, u = min(ours, BEYOND - 1), float(cell["utilisation_percent"]) / 100
        exchange = (1 / product.utilisation(cell, at) - 1) * interval * min(GRID[at], MOST_MBIT / 1000 / WIRE_FACTOR)
        exchange /= GRID[published_point(cell["published_gbps"])]
        waited = (1 / u - 1) * interval
        cell["hidden_steps"] = f"{exchange - waited:.2f}"
        cell["steps_above_if_hidden"] = f"{math.log(exchange / (waited + 1)) / math.log(GRID[1] / GRID[0]):.1f}"


PIPELINE_RATIOS = {"fp32": (1.0, 1.0), "tah": (32 / 4.41, 32 / 6.5)}
TOKENS_OF_STEP = 32 * 1024


def fill_pipeline(product, cells):
    """The one constant, compute seconds of a stage and step, by least squares of ln over the cells of the additive slots."""

    def serial(compute_s):
        steps = {codec: product.serial_steps(compute_s, ratios) for codec, ratios in PIPELINE_RATIOS.items()}
        return [steps[c["codec"]][int(c["link_mbit"]), int(c["microbatch_rows"])] for c in cells]

    at_1, at_2 = serial(1.0), serial(2.0)  # slots are sums: a step is linear in the constant

    def misfit(hundredths):
        steps = [one + (hundredths / 100 - 1) * (two - one) for one, two in zip(at_1, at_2)]
        return sum(math.log(TOKENS_OF_STEP / step / float(c["published_tokens_per_s"])) ** 2 for step, c in zip(steps, cells))

    compute_s = min(range(100, 2000), key=misfit) / 100
    for cell, step_s in zip(cells, serial(compute_s)):
        clock_s = product.clock_steps(compute_s, int(cell["link_mbit"]), int(cell["microbatch_rows"]))[cell["codec"]]
        cell["compute_s"] = f"{compute_s:.2f}"
        cell["serial_tokens_per_s"] = f"{TOKENS_OF_STEP / step_s:.0f}"
        cell["clock_tokens_per_s"] = f"{TOKENS_OF_STEP / clock_s:.0f}"


def by(cells, *keys):
    groups = {}
    for cell in cells:
        groups.setdefault(tuple(cell[key] for key in keys), []).append(cell)
    return groups


def off_grid(cell):
    """Ours needs more than the grid has, the paper does not: the steps are a lower bound."""
    return cell["our_gbps"].endswith("+") and not cell["published_gbps"].endswith("+")


def within(cells, most):
    return sum(abs(int(cell["steps_above"])) <= most and not off_grid(cell) for cell in cells)


def span(cells):
    steps = [int(cell["steps_above"]) for cell in cells]
    text = f"{min(steps):+d}" if min(steps) == max(steps) else f"{min(steps):+d} to {max(steps):+d}"
    return text + " or more" * any(map(off_grid, cells))


def utilisation_rows(cells):
    rows = ["| source | method, H | 50 % | 80 % | 90 % | 95 % | 99 % | within one step | within two |", "|---|---|---|---|---|---|---|---|---|"]
    for (source, method, inner), of_method in by(cells, "source", "method", "inner_steps").items():
        at = by(of_method, "utilisation_percent")
        rows.append(f"| {source[6:]} | `{method}`{inner and ', ' + inner} | " +
                    " | ".join(span(at[u,]) for u in ("50", "80", "90", "95", "99")) +
                    f" | {within(of_method, 1)} of {len(of_method)} | {within(of_method, 2)} |")
    return rows


def pipeline_rows(cells):
    rows = ["| link, rows | FP32: printed | serial | clock | TAH: printed | serial | clock |", "|---|---|---|---|---|---|---|"]
    for (rate, batch), pair in by(cells, "link_mbit", "microbatch_rows").items():
        row = f"| {rate} Mbit/s, {batch} |"
        for cell in pair:
            row += f" {cell['published_tokens_per_s']} |"
            for column in ("serial_tokens_per_s", "clock_tokens_per_s"):
                off = 100 * (float(cell[column]) / float(cell["published_tokens_per_s"]) - 1)
                row += f" {cell[column]} ({off:+.0f} %) |"
        rows.append(row)
    return rows


def sentences(utilisation, pipeline):
    """What the page says in figures."""

    def near(cells, most=1):
        return f"{within(cells, most)} of {len(cells)}"

    def misfit(column, codec=None):
        logs = [math.log(float(c[column]) / float(c["published_tokens_per_s"])) for c in pipeline if codec in (None, c["codec"])]
        return math.sqrt(statistics.fmean(x * x for x in logs)), math.exp(max(logs, key=abs)) - 1

    below = [c for c in utilisation if c["utilisation_percent"] in ("50", "80", "90") and c["method"] != "dp" and c["inner_steps"] != "1"]
    every_step = [c for c in utilisation if c["method"] == "dp" or c["inner_steps"] == "1"]
    rest = [c for c in utilisation if c not in every_step]
    rare = {source: [c for c in rest if c["method"] == "diloco" and c["source"].endswith(source)] for source in ("2501.18512", "2503.09799")}

    def near_if_hidden(cells):
        return f"{sum(abs(float(c['steps_above_if_hidden'])) <= 1 for c in cells)} of {len(cells)}"

    def hidden(*methods):
        steps = [float(c["hidden_steps"]) for c in utilisation if c["method"] in methods and c["hidden_steps"] and
                 c["utilisation_percent"] == "95" and c["inner_steps"] in ("", "100") and c["source"].endswith("2501.18512")]
        return f"{min(steps):.2f} to {max(steps):.2f}"

    serial, clock = misfit("serial_tokens_per_s"), misfit("clock_tokens_per_s")
    fp32 = [100 * (float(c["clock_tokens_per_s"]) / float(c["published_tokens_per_s"]) - 1) for c in pipeline if c["codec"] == "fp32"]
    return [
        f"{near(utilisation)} cells are within one step of the grid",
        f"{near(rest)} of those that exchange every tenth step or more rarely",
        f"{near(below)} up to 90 % utilisation",
        f"{near(every_step)} of those that exchange every step",
        f"{near(utilisation, 2)} within two",
        f"{sum(map(off_grid, utilisation))} cells need more than 1000 Gbit/s",
        f"`dp` {hidden('dp')} steps of compute, `diloco` {hidden('diloco')}, each fragment of `streaming` {hidden('streaming')}",
        f"{near_if_hidden(rare['2501.18512'])} `diloco` cells of 2501.18512 and {near_if_hidden(rare['2503.09799'])} of 2503.09799",
        f"{pipeline[0]['compute_s']} s of compute per stage and step",
        f"root mean square {100 * serial[0]:.1f} %, worst {100 * serial[1]:+.0f} %",
        f"root mean square {100 * clock[0]:.1f} %, worst {100 * clock[1]:+.0f} %",
        f"{min(fp32):.0f} to {max(fp32):.0f} % too fast",
    ]


def main():
    folder, longhaul, specs = (Path(argument) for argument in sys.argv[1:4])
    with tempfile.TemporaryDirectory() as scratch:
        product = Product(longhaul, specs, scratch)
        tables = {"utilisation.csv": fill_utilisation, "pipeline.csv": fill_pipeline}
        said = []
        for name, fill in tables.items():
            committed = read(folder / name)
            cells = [dict(cell) for cell in committed]
            whole = {"--write", "--all"} & set(sys.argv)
            fill(product, [cell for cell in cells if whole or cell.get("utilisation_percent") in (None, "90")])
            cells = [{key: str(value) for key, value in cell.items()} for cell in cells]
            if "--write" in sys.argv:
                with open(folder / name, "w", newline="", encoding="utf-8") as file:
                    writer = csv.DictWriter(file, cells[0], lineterminator="\n")
                    writer.writeheader()
                    writer.writerows(cells)
            else:
                for mine, theirs in zip(cells, committed):
                    assert mine == theirs, f"{name}: {theirs} is computed as {mine}; write it anew with --write"
            said.append(cells)
    wanted = utilisation_rows(said[0]) + pipeline_rows(said[1]) + sentences(*said)
    if "--write" in sys.argv:
        print(*wanted, f"calls {product.calls}", sep="\n")
        return
    text = " ".join(text_of(folder).split())
    missing = [line for line in wanted if " ".join(line.split()) not in text]
    assert not missing, "not on the page:\n" + "\n".join(missing)


if __name__ == "__main__":
    main()
