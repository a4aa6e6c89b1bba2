"""Checks the figures of README.md and docs/findings.md against the files in docs/results.

    findings_page_test.py REPO            compares
    findings_page_test.py REPO --write    rewrites the table and the figure of docs/findings.md

Loss differences are computed here from the published losses: the mean over seeds (over rows of text for the pretrained
model) of the paired difference, with a 95 % t interval. eta and q come from arms.csv. A row of a table must be on its
page to the letter, and every value with an interval on the two pages must be one of these.
"""

import csv
import math
import pathlib
import re
import sys

import numpy as np

T975 = {5: 2.776445, 6: 2.570582, 15: 2.144787, 16: 2.131450, 24: 2.068658}  # by n, with n - 1 degrees of freedom
DEMO_SEEDS = [100, 104, 108, 112]  # the four campaigns of demo-design that were not part of its development

# folder, losses files, parameters, arm
TRAINED = [
    ("law", ["losses-law-w16.csv"], 34_816, "f4-s8"),
    ("activation-small", ["losses.csv"], 118_784, "P-both-s8"),
    ("activation-small", ["losses.csv"], 118_784, "P-bwd-s8"),
    ("law", ["losses-law-w32.csv"], 118_784, "f4-s8"),
    ("demo-design", [f"seeds-{seed}/losses.csv" for seed in DEMO_SEEDS], 434_176, "s4"),
    ("demo-design", [f"seeds-{seed}/losses.csv" for seed in DEMO_SEEDS], 434_176, "s8"),
    ("law", ["losses-law-w64.csv"], 434_176, "f4-s8"),
    ("activation-deep", ["losses.csv"], 473_088, "P-both-s8"),
    ("activation-deep", ["losses.csv"], 473_088, "E-both-s16"),
    ("activation-deep", ["losses.csv"], 473_088, "M-both-s16"),
]
PRICED = ["int8-b64", "minmax6-b64", "int4-b64-h64", "int4-b64"]  # SmolLM2-135M at S = 8


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def interval(values, parts=1):
    values = np.asarray(values) / parts
    half = T975[len(values)] * values.std(ddof=1) / math.sqrt(len(values))
    return values.mean(), values.mean() - half, values.mean() + half


def shown(estimate, digits):
    text = "{:.{d}f} [{:.{d}f}, {:.{d}f}]".format(*estimate, d=digits)
    return re.sub(r"-(0\.0+)(?=[\],\s])", r"\1", text)


class Trained:
    """One arm of a published campaign: its cost per boundary, codec on and off at evaluation."""

    def __init__(self, results, folder, files, parameters, arm):
        losses = [row for file in files for row in rows_of(results / folder / file)]
        mine = {row["seed"]: row for row in losses if row["arm"] == arm}
        reference = {row["seed"]: row for row in losses if row["arm"] == "reference@1"}
        assert mine.keys() == reference.keys(), (folder, arm)
        one = next(iter(mine.values()))
        self.folder, self.parameters, self.codecs = folder, parameters, one["codecs"]
        self.stages, self.boundaries, self.seeds = int(one["stages"]), int(one["stages"]) - 1, len(mine)
        self.tokens_per_parameter = int(one["train_tokens"]) / parameters
        self.delta = {side: [float(mine[seed][f"loss_{side}_nat"]) - float(reference[seed][f"loss_{side}_nat"])
                             for seed in sorted(mine)] for side in ("off", "on")}

    def per_boundary(self, side):
        return interval(self.delta[side], self.boundaries)

    def row(self):
        return (f"| {self.parameters / 1e6:.3f} M, {self.tokens_per_parameter:.2g} | `{self.codecs.replace(' / ', '` / `')}` "
                f"| {self.stages} | {self.seeds} seeds | {shown(self.per_boundary('on'), 4)} | {shown(self.per_boundary('off'), 4)} "
                f"| [{self.folder}](results/{self.folder}/README.md) |").replace("`none`", "none")


class Priced:
    """One codec at S = 8 in the pretrained model, without training."""

    def __init__(self, results, codec):
        rows = [row for row in rows_of(results / "pretrained/rows-docs.csv") if row["part"] == "priced"]
        self.codec = codec
        everywhere = [f"{block} {codec}" for block in (3, 7, 11, 15, 18, 22, 26)]
        self.delta = [float(row["loss_nat_per_token"]) - float(row["uncompressed_nat_per_token"])
                      for row in rows if row["crossings"].split(", ") == everywhere]

    def per_boundary(self):
        return interval(self.delta, 7)

    def row(self):
        return (f"| 134.5 M, pretrained, not trained through the codec | `{self.codec}` / none | 8 | {len(self.delta)} rows of text "
                f"| {shown(self.per_boundary(), 4)} | | [pretrained](results/pretrained/README.md) |")


def draw(trained, priced, file):
    import matplotlib
    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "findings", "svg.fonttype": "none"})
    from matplotlib import pyplot

    bars = [(f"{arm.codecs}, S = {arm.stages}\n{arm.parameters / 1e6:.3f} M, {arm.tokens_per_parameter:.2g} tokens per parameter",
             arm.per_boundary("on"), "C0") for arm in trained]
    bars += [(f"{arm.codec} / none, S = 8\n134.5 M, pretrained, not trained through it", arm.per_boundary(), "C1")
             for arm in priced if arm.codec != "int4-b64"]
    figure, axes = pyplot.subplots(figsize=(8, 6))
    for place, (_, (value, low, high), color) in enumerate(reversed(bars)):
        axes.errorbar(value, place, xerr=[[value - low], [high - value]], fmt="o", color=color, capsize=3)
    axes.axvline(0, color="0.6", linewidth=0.8)
    axes.set_yticks(range(len(bars)), [label for label, _, _ in reversed(bars)], fontsize=7)
    axes.set_xlabel("cost of one boundary, nat per token, codec on at evaluation (95 % interval)")
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})


def valid_intervals(results, trained, priced):
    """Every value with an interval that the two pages may state."""
    estimates = [arm.per_boundary(side) for arm in trained for side in ("on", "off")]
    estimates += [interval(arm.delta[side]) for arm in trained for side in ("on", "off")]
    estimates += [arm.per_boundary() for arm in priced] + [interval(arm.delta) for arm in priced]
    others = [results / name / "arms.csv" for name in ("activation-small", "activation-deep", "orderings-tensor")]
    for file in sorted(results.glob("demo-design/*/arms.csv")) + others:
        for row in rows_of(file):
            for quantity, low, high in (("delta_nat", "delta_low", "delta_high"), ("eta", "eta_low", "eta_high"), ("q", "q_low", "q_high"),
                                        ("price_nat", "price_low", "price_high"), ("rho", "rho_low", "rho_high")):
                if row.get(quantity) and row[low]:
                    estimates.append(tuple(float(row[name]) for name in (quantity, low, high)))
    return {shown(estimate, digits) for estimate in estimates for digits in (2, 3, 4)}


def main():
    root, write = pathlib.Path(sys.argv[1]), sys.argv[2:] == ["--write"]
    results = root / "docs/results"
    trained = [Trained(results, *arm) for arm in TRAINED]
    priced = [Priced(results, codec) for codec in PRICED]
    rows = [arm.row() for arm in trained + priced]
    page = root / "docs/findings.md"
    if write:
        text = re.sub(r"(?m)(^\| model, tokens .*\n\|.*\n)(\|.*\n)*", lambda m: m[1] + "\n".join(rows) + "\n", page.read_text())
        page.write_text(text)
        draw(trained, priced, root / "docs/findings.svg")
    missing = [row for row in rows if row not in page.read_text().splitlines()]
    assert not missing, "docs/findings.md lacks these rows (--write puts them there):\n" + "\n".join(missing)
    valid = valid_intervals(results, trained, priced)
    for name in ("README.md", "docs/findings.md"):
        said = re.findall(r"-?\d+\.\d+ \[-?\d+\.\d+, -?\d+\.\d+\]", (root / name).read_text())
        strange = [value for value in said if value not in valid]
        assert said and not strange, f"{name}: no published file gives {strange}"
    readme = (root / "README.md").read_text().splitlines()
    assert len(readme) <= 100, f"README.md has {len(readme)} lines; at most 100"


main()
