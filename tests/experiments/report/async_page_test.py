"""Every figure of docs/results/async/README.md is that of the files beside it.

    async_page_test.py FOLDER [--print]      compares, or prints the table that the page must have

Losses and their differences are computed here from losses.csv (t over seeds, paired) and must be those of pareto.csv;
hours are of pareto.csv, of worst-case.csv for the other profile (a short run of each arm), and of times.csv, rows of the
report's estimates.csv.
"""

import itertools
import sys
from pathlib import Path

from outer_page_test import check_page, read, shown, with_interval

STEPS, SHORT_STEPS = 180, 60


def main():
    folder = Path(sys.argv[1])
    losses, intervals = {}, set()
    for row in read(folder, "losses.csv"):
        if "@" not in row["arm"]:
            losses.setdefault(row["arm"], {})[row["seed"]] = float(row["loss_off_nat"])
    run = {row["arm"]: row for row in read(folder, "pareto.csv")}
    far = {row["arm"]: float(row["time_s"]) / SHORT_STEPS for row in read(folder, "worst-case.csv")}
    times = {(row["arm"], row["quantity"]): row for row in read(folder, "times.csv")}

    def keep(measured, digits=3):
        intervals.add(shown(*measured, digits))
        return shown(*measured, digits)

    rows = []
    for arm in losses:
        stages, kind, optimizer = int(arm[1]), arm[3:].rsplit("-", 1)[0], arm.rsplit("-", 1)[1]
        loss = with_interval(list(losses[arm].values()))
        for mine, column in zip(loss, ("loss_nat", "loss_nat_low", "loss_nat_high")):
            assert abs(mine - float(run[arm][column])) < 1e-6, (arm, column, mine)
        late = 0 if kind == "1f1b" else (stages - 1) / int(kind[-1])
        flushed = losses[f"s{stages}-1f1b-{optimizer}"]
        less = "-" if kind == "1f1b" else keep(with_interval([losses[arm][s] - flushed[s] for s in flushed]))
        near = float(run[arm]["time_s"]) / STEPS
        row = times.get((arm, "time to loss"))
        reached = "-"
        if row and row["value"]:
            seconds = [float(row[end]) for end in ("value", "low", "high")]
            reached = keep(seconds, 1)
        rows.append(f"| `{arm}` | {late:g} | {keep(loss)} | {less} | {near:.3f} | {far[arm]:.3f} | {reached} |")
    for a, b in itertools.permutations(losses, 2):
        keep(with_interval([losses[a][seed] - losses[b][seed] for seed in losses[a]]))
    for optimizer in ("adamw", "nadam"):
        assert losses[f"s4-1f1b-{optimizer}"] == losses[f"s8-1f1b-{optimizer}"]
    if "--print" in sys.argv:
        print("\n".join(rows))
        return
    check_page((folder / "README.md").read_text(encoding="utf-8"), rows, intervals)


if __name__ == "__main__":
    main()
