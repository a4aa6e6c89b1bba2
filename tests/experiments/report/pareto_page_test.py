"""Every figure of the pages in docs/results/pareto is that of the files beside them.

    pareto_page_test.py FOLDER [--print]      compares, or prints the table that the page must have

Losses and their differences are computed here from losses.csv (t over seeds, paired) and must be those of pareto.csv;
seconds, bytes and memory are of pareto.csv; when an arm is at the stated loss, and after how many tokens, is of times.csv,
rows of the report's estimates.csv.
"""

import itertools
import re
import sys
from pathlib import Path

from outer_page_test import check_page, read, shown, text_of, with_interval


def main():
    folder = Path(sys.argv[1])
    losses, coded, intervals = {}, {}, set()  # held-out, codec off and on at evaluation
    for row in read(folder, "losses.csv"):
        if "@" not in row["arm"]:
            losses.setdefault(row["arm"], {})[row["seed"]] = float(row["loss_off_nat"])
            coded.setdefault(row["arm"], {})[row["seed"]] = float(row["loss_on_nat"])
    run = {row["arm"]: row for row in read(folder, "pareto.csv")}
    times = {(row["arm"], row["quantity"]): row for row in read(folder, "times.csv")}

    def keep(measured, digits=3):
        intervals.add(shown(*measured, digits))
        return shown(*measured, digits)

    def reached(arm, quantity, unit):
        row = times[arm, quantity]
        return keep([float(row[end]) / unit for end in ("value", "low", "high")], 4)

    def of(arm, column, unit=1.0):
        return float(run[arm][column]) / unit

    rows = []
    for arm in sorted(losses, key=lambda arm: float(times[arm, "time to loss"]["value"])):
        loss = with_interval(list(losses[arm].values()))
        for mine, column in zip(loss, ("loss_nat", "loss_nat_low", "loss_nat_high")):
            assert abs(mine - of(arm, column)) < 1e-6, (arm, column, mine)
        rows.append(f"| `{arm}` | {keep(loss)} | {reached(arm, 'time to loss', 3600)} | {reached(arm, 'tokens to loss', 1e6)} | "
                    f"{of(arm, 'time_s'):.1f} | {of(arm, 'message_bytes', 1e6):.1f} | {of(arm, 'memory_bytes', 1e6):.2f} |")
    for a, b in itertools.permutations(losses, 2):
        for side in (losses, coded):
            keep(with_interval([side[a][seed] - side[b][seed] for seed in side[a]]))

    def share(arm, other, column):
        return of(arm, column) / of(other, column)

    saved = [100 * (1 - share(arm, arm + "-exact", "time_s")) for arm in ("dp", "diloco12")]
    said = [f"in {share('diloco12-gpipe', 'diloco12', 'time_s'):.2f} of the time and "
            f"{share('diloco12-gpipe', 'diloco12', 'memory_bytes'):.2f} times the memory",
            f"they take {saved[0]:.0f} % and {saved[1]:.0f} % off the time",
            f"{100 * (1 - share('diloco12-gpipe', 'diloco12', 'time_s')):.0f} % apart"]
    assert losses["diloco12"] == losses["diloco12-gpipe"]
    if "--print" in sys.argv:
        print("\n".join(rows + said))
        return
    text = text_of(folder)
    check_page(text, rows, intervals)
    flat = re.sub(r"\s+", " ", text)
    missing = [words for words in said if words not in flat]
    assert not missing, missing


if __name__ == "__main__":
    main()
