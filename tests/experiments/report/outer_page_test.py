"""Every figure of the pages in docs/results/outer is that of the files beside them.

    outer_page_test.py FOLDER [LONGHAUL SPEC]      compares; with LONGHAUL also estimates anew from losses.csv
    outer_page_test.py FOLDER --print              prints the tables that the page must have

Losses, differences and their intervals are computed here from losses.csv (t over seeds, paired), and must be those of
arms.csv; eta is of arms.csv; bytes and seconds of wire.csv (continental-us) and wire-global.csv; rates of rates.csv, all
that the spare seed tried. A row of a table stands on the page to the letter, and whatever the page says as a value with
an interval is one of these, or a difference between two arms.
"""

import csv
import itertools
import json
import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path

T975 = {2: 12.706205, 3: 4.302653, 4: 3.182446, 5: 2.776445}  # over n seeds, n - 1 degrees of freedom


def read(folder, name):
    with open(folder / name, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def with_interval(values):
    mean = sum(values) / len(values)
    sd = math.sqrt(sum((x - mean) ** 2 for x in values) / (len(values) - 1))
    half = T975[len(values)] * sd / math.sqrt(len(values))
    return mean, mean - half, mean + half


def shown(value, low, high, digits=3):
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]".replace("-0.000", "0.000")


def check_page(text, rows, intervals):
    """The page has every row to the letter, and no value with an interval but these."""
    lines = set(text.splitlines())
    missing = [row for row in rows if row not in lines]
    assert not missing, "not on the page:\n" + "\n".join(missing)
    said = re.findall(r"-?\d+\.\d+ \[(?:<= )?-?\d+\.\d+, -?\d+\.\d+\]", text)
    strange = [value for value in said if value not in intervals]
    assert said and not strange, f"no such value in the files: {strange}"


def text_of(folder):
    """All pages of a result's folder."""
    return "\n".join(page.read_text(encoding="utf-8") for page in sorted(folder.glob("*.md")))


class Page:
    def __init__(self, folder):
        self.losses, self.tokens = {}, {}
        for row in read(folder, "losses.csv"):
            self.losses.setdefault(row["arm"], {})[row["seed"]] = float(row["loss_off_nat"])
            self.tokens[row["arm"]] = int(row["train_tokens"])
        self.estimates = {row["arm"]: row for row in read(folder, "arms.csv") if row["evaluation"] == "off"}
        self.wire = {row["arm"]: row for row in read(folder, "wire.csv")}
        self.far = {row["arm"]: row for row in read(folder, "wire-global.csv")}
        self.rates = read(folder, "rates.csv")
        self.arms = [arm for arm in self.losses if "@" not in arm]
        for row in read(folder, "losses-muon.csv"):  # a campaign of its own, of the same reference
            if "@" not in row["arm"]:
                self.losses.setdefault(row["arm"], {})[row["seed"]] = float(row["loss_off_nat"])
            elif row["arm"] in self.losses:
                assert abs(self.losses[row["arm"]][row["seed"]] - float(row["loss_off_nat"])) < 1e-12, row
        self.intervals = set()

    def loss(self, arm):
        return self.keep(with_interval(list(self.losses[arm].values())))

    def difference(self, arm, other):
        seeds = self.losses[other]
        return with_interval([self.losses[arm][seed] - seeds[seed] for seed in self.losses[arm]])

    def keep(self, measured):
        self.intervals.add(shown(*measured))
        return shown(*measured)

    def eta(self, arm):
        row = self.estimates[arm]
        if not row["eta"]:
            return "none"
        if row["bound"]:
            return f"<= {float(row['eta']):.3f}"
        ends = [f"{float(row[end]):.3f}" if row[end] else "" for end in ("eta_low", "eta_high")]
        text = f"{float(row['eta']):.3f} [{row['low_bound'] and '<= '}{ends[0]}, {ends[1]}]"
        self.intervals.add(text)
        return text

    def changes(self, arm):
        return dict(re.findall(r"([a-z_.]+[a-z0-9_]): \S+ -> (\S+?)(?:;|$)", self.wire[arm]["changes"]))

    def megabytes(self, arm):
        return float(self.wire[arm]["outer_bytes"]) / 1e6

    def tokens_table(self):
        rows = ["| algorithm | loss, nat | Delta, nat | eta | MB sent | bits an element | s, continental-us | s, global |",
                "|---|---|---|---|---|---|---|---|"]
        whole = sorted((arm for arm in self.arms if "-b" not in arm), key=lambda arm: self.difference(arm, "reference@1"))
        for arm in whole:
            rows.append(f"| `{arm}` | {self.loss(arm)} | {self.keep(self.difference(arm, 'reference@1'))} | {self.eta(arm)} | "
                        f"{self.megabytes(arm):.2f} | {float(self.wire[arm]['outer_bits_per_element']):.2f} | "
                        f"{float(self.wire[arm]['simulated_s']):.1f} | {float(self.far[arm]['simulated_s']):.1f} |")
        return rows

    def bytes_table(self):
        """Of each algorithm the run that may send no more than diloco, and a tenth of that."""
        budget = self.megabytes("diloco")
        rows = [f"| algorithm | at most {budget:.2f} MB: loss, nat | steps, MB | at most {budget / 10:.2f} MB: loss, nat | steps, MB |",
                "|---|---|---|---|---|"]
        table = []
        for arm in (arm for arm in self.arms if "-b" not in arm):
            cells, order = [], []
            for most, end in ((budget, "-b1"), (budget / 10, "-b10")):
                run = arm if self.megabytes(arm) <= most * 1.0001 else arm + end
                assert self.megabytes(run) <= most * 1.0001, (run, self.megabytes(run), most)
                cells += [self.loss(run), f"{self.tokens[run] // 2048}, {self.megabytes(run):.2f}"]
                order.append(with_interval(list(self.losses[run].values()))[0])
            table.append((order, f"| `{arm}` | {' | '.join(cells)} |"))
        return rows + [row for _, row in sorted(table)]

    def rates_table(self):
        """What was tried on the spare seed, best first."""
        rows = ["| algorithm | tried on the spare seed: loss at inner rate, outer rate and momentum; best first |", "|---|---|"]
        for name, tried in itertools.groupby(self.rates, key=lambda row: row["algorithm"]):
            best = sorted(tried, key=lambda row: float(row["loss_nat"]))
            rows.append(f"| `{name}` | " + "; ".join(
                f"{float(row['loss_nat']):.3f} at {row['lr']}" +
                (f", {row['outer_lr']}, {row['momentum']}" if row["outer_lr"] else "") for row in best) + " |")
        return rows

    def all_rows(self):
        return self.tokens_table() + self.bytes_table() + self.rates_table()


def main():
    folder = Path(sys.argv[1])
    page = Page(folder)
    rows = page.all_rows()
    if "--print" in sys.argv:
        print("\n".join(rows))
        return
    for arm in page.arms:  # the tool's own differences are those of the losses
        row = page.estimates[arm]
        for mine, column in zip(page.difference(arm, "reference@1"), ("delta_nat", "delta_low", "delta_high")):
            assert abs(mine - float(row[column])) < 1e-6, (arm, column, mine, row[column])
    best = {}
    for row in page.rates:
        if row["algorithm"] not in best or float(row["loss_nat"]) < float(best[row["algorithm"]]["loss_nat"]):
            best[row["algorithm"]] = row
    for name, row in best.items():  # what counts was trained at the best rates
        if name not in page.wire:
            continue
        changed = page.changes(name)
        assert float(changed.get("train.lr", best["dp"]["lr"])) == float(row["lr"]), (name, row)
        if row["outer_lr"]:
            assert float(changed.get("outer.lr", 0.7)) == float(row["outer_lr"]), (name, row)
            assert float(changed.get("outer.momentum", 0.9)) == float(row["momentum"]), (name, row)
    page.eta("control@0.2")
    for arm in page.losses:
        page.loss(arm)
    for arm, other in itertools.permutations((arm for arm in page.losses if "@" not in arm), 2):
        page.keep(page.difference(arm, other))
    text = text_of(folder)
    check_page(text, rows, page.intervals)
    awake = {row["arm"]: f"{float(row['simulated_s']):.1f}" for row in read(folder, "wire-awake.csv")}
    assert (f"`net.slow_start_after_idle = false` {awake['noloco']} and {awake['hierarchical']} s, `diloco` {awake['diloco']} "
            in text), awake
    if len(sys.argv) > 3:
        with tempfile.TemporaryDirectory() as results:
            anew = subprocess.run([sys.argv[2], "measure", sys.argv[3], "--from-losses", folder / "losses.csv", "--results",
                                   results, "--json"], check=True, capture_output=True, text=True, timeout=120)
        found = 0
        for row in json.loads(anew.stdout)["estimates"]:
            if row["quantity"] != "eta" or row["evaluation"] != "off" or row["arm"] not in page.arms:
                continue
            for end, column in (("value", "eta"), ("low", "eta_low"), ("high", "eta_high")):
                published = page.estimates[row["arm"]][column]
                if published:
                    assert abs(row[end] - float(published)) < 1e-6, (row, column, published)
                    found += 1
        assert found >= 2 * len(page.arms), found


if __name__ == "__main__":
    main()
