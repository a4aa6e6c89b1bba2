"""The published losses on docs/results/outer and docs/results/diloco-local are those of docs/results/published.

    published_losses_test.py RESULTS             compares the pages of docs/results with their files
    published_losses_test.py RESULTS --print     prints the rows and figures that the pages must have

Per cent are of the loss of data parallel. A share of tokens is D'/D with L(N, D') = L(N, D) + the difference in nat and
D = 20 N, by the law L(N, D) = 1.8172 + 482.01 N^-0.3478 + 2085.43 D^-0.3658, inverted and not linearised.
"""

import csv
import math
import statistics
import sys
from pathlib import Path

from outer_page_test import text_of

OUR_PARAMETERS = {"diloco-local": 0.119e6, "outer": 0.035e6}
GROUPS = (1, 2, 4, 8)


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def means(path):
    """Mean held-out loss of each arm; without a boundary codec, codec on and off are one loss."""
    losses = {}
    for row in read(path):
        assert row["loss_on_nat"] == row["loss_off_nat"] or row["codecs"] != "none / none", row
        losses.setdefault(row["arm"], []).append(float(row["loss_off_nat"]))
    return {arm: statistics.fmean(values) for arm, values in losses.items()}


def share_of_tokens(parameters, difference_nat):
    tokens = 20 * parameters
    return ((2085.43 * tokens**-0.3658 + difference_nat) / 2085.43) ** (-1 / 0.3658) / tokens


def percent(value):
    return f"{100 * value:+.1f} %"


def cells(values):
    return " | ".join(values)


class Published:
    def __init__(self, folder):
        self.fits = {row["groups"]: {key: float(row[key]) for key in row if key.endswith(("_a", "_alpha"))}
                     for row in read(folder / "fits.csv")}
        self.losses = {}
        for row in read(folder / "losses.csv"):
            self.losses.setdefault(int(row["parameters"]), {})[row["groups"]] = float(row["loss_nat"])

    def fitted(self, groups, parameters):
        fit, dp = self.fits[str(groups)], self.fits["dp"]
        return fit["loss_a"] * parameters ** fit["loss_alpha"] / (dp["loss_a"] * parameters ** dp["loss_alpha"]) - 1

    def by_beta(self, groups, parameters):
        """The other route of the paper's data: ln(L_M / L_1) = beta(N) ln M, beta = 1.0923 N^-0.2342."""
        return groups ** (1.0923 * parameters**-0.2342) - 1

    def measured(self, groups, parameters):
        losses = self.losses[parameters]
        return losses[str(groups)] / losses["dp"] - 1

    def share(self, groups, parameters):
        losses = self.losses[parameters]
        return share_of_tokens(parameters, losses[str(groups)] - losses["dp"])

    def rounds(self, groups, parameters):
        """Outer steps of D = 20 N tokens at H = 30 and the batch of the paper's own fit."""
        fit = self.fits[str(groups)]
        return 20 * parameters / (fit["batch_tokens_a"] * parameters ** fit["batch_tokens_alpha"]) / 30


def local_rows(results, published):
    local, small = means(results / "diloco-local/losses.csv"), means(results / "diloco-small/losses.csv")
    tuned = means(results / "diloco-local/tuned/losses.csv")
    ours = OUR_PARAMETERS["diloco-local"]
    rows = ["| loss over data parallel, H = 30 | M = 1 | M = 2 | M = 4 | M = 8 | size, tokens per parameter | rounds |",
            "|---|---|---|---|---|---|---|"]

    def own(name, losses, arm, where):
        found = [f"{arm}m{m}-h30" for m in GROUPS]
        rows.append(f"| {name} | {cells(percent(losses[a] / losses['reference@1'] - 1) if a in losses else '' for a in found)} | {where} |")

    own("here, batch shared, untuned", local, "D-", "0.119 M, 6.7 | 13")
    own("[diloco-small](../diloco-small/README.md), untuned", small, "", "0.119 M, 3.4 | 6.5")
    own("here, tuned, inside a transition", tuned, "D-", "0.119 M, 15 | 30")
    for size, name in ((35_000_000, "35 M"), (335_000_000, "335 M"), (2_400_000_000, "2.4 B")):
        rows.append(f"| published, {name} | {cells(percent(published.measured(m, size)) for m in GROUPS)} | {name}, 20 | "
                    f"{published.rounds(4, size):.0f} at M = 4 |")
    rows.append(f"| their fit for each M at our size | {cells(percent(published.fitted(m, ours)) for m in GROUPS)} | "
                "extrapolated, N / 300 | |")
    rows.append(f"| their beta(N) ln M at our size, over M = 1 | {cells(percent(published.by_beta(m, ours)) for m in GROUPS)} | extrapolated, N / 300 | |")
    rows += ["| share of tokens kept, published, H = 30 | M = 1 | M = 2 | M = 4 | M = 8 |", "|---|---|---|---|---|"]
    for size in published.losses:
        name = f"{size / 1e9:g} B" if size >= 1e9 else f"{size / 1e6:g} M"
        rows.append(f"| {name} | {cells(f'{published.share(m, size):.2f}' for m in GROUPS)} |")
    beta = {name: math.log(losses["D-m4-h30"] / losses["reference@1"]) / math.log(4) for name, losses in
            (("untuned", local), ("tuned", tuned))}
    rows.append(f"L_4 = L_DP 4^beta has beta {beta['untuned']:.3f} here untuned and {beta['tuned']:.3f} tuned; their fit extrapolates to "
                f"{1.0923 * ours**-0.2342:.3f}")
    by_steps = {h: local[f"D-m4-h{h}"] for h in (1, 10, 30, 100)}
    rows.append("M = 4 ends at " + ", ".join(f"{value:.3f} (H = {h})" for h, value in by_steps.items()))
    assert min(by_steps, key=by_steps.get) == 1 and max((local[f"D-m1-h{h}"], h) for h in by_steps)[1] == 1
    assert local["D-m2-h30"] < local["D-m2-h1"] < local["D-m2-h100"]
    rows.append(f"in per cent of loss {100 * (tuned['D-m4-h30'] / tuned['reference@1'] - 1):.0f} % (tuned) and "
                f"{100 * (local['D-m4-h30'] / local['reference@1'] - 1):.0f} % (untuned); the literature's 35 M has "
                f"{100 * published.measured(4, 35_000_000):.1f} %")
    return rows


def outer_rows(results, published):
    losses, ours = means(results / "outer/losses.csv"), OUR_PARAMETERS["outer"]
    over_dp = {arm: losses[arm] / losses["dp"] - 1 for arm in ("diloco", "muloco")}
    return [f"{percent(over_dp['diloco'])} of loss over `dp`",
            f"{percent(published.measured(4, 35_000_000))} at 35 M, {percent(published.measured(4, 2_400_000_000))} at 2.4 B; "
            f"their fits extrapolated to 0.035 M {percent(published.fitted(4, ours))} and {percent(published.by_beta(4, ours))}",
            f"{percent(over_dp['muloco'])} of loss against `dp`",
            f"{percent(3.120 / 3.158 - 1)} of loss against data parallel with AdamW, {percent(3.120 / 3.124 - 1)} against it with Muon",
            f"{published.rounds(4, 35_000_000):.0f} at 35 M to {published.rounds(4, 2_400_000_000):.0f} at 2.4 B"]


def main():
    results = Path(sys.argv[1])
    published = Published(results / "published")
    assert math.isclose(share_of_tokens(1e9, 0), 1)
    for page, wanted in (("diloco-local", local_rows(results, published)), ("outer", outer_rows(results, published))):
        if "--print" in sys.argv:
            print(*wanted, sep="\n")
            continue
        text = " ".join(text_of(results / page).split())
        missing = [line for line in wanted if " ".join(line.split()) not in text]
        assert not missing, f"the pages of {page} lack:\n" + "\n".join(missing)


if __name__ == "__main__":
    main()
