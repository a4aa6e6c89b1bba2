"""docs/price.md as written: its files with their names, its commands in their order.

    price_page_test.py LONGHAUL ROOT

LONGHAUL is the command, ROOT the source tree. Fails where a command fails, or does not leave what the page says.
"""

import csv
import json
import pathlib
import re
import subprocess
import sys
import tempfile

LONGHAUL, ROOT = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])


def run(line, folder):
    done = subprocess.run(["/bin/sh", "-c", line], cwd=folder, capture_output=True, text=True, timeout=500)
    if done.returncode != 0:
        sys.exit(f"{line}: status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.stdout


def figures(line):
    """Numbers of a table's line."""
    return [float(x) for x in re.findall(r"-?\d+\.\d+", line)]


def main():
    page = (ROOT / "docs/price.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(sh|toml|)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert [kind for kind, _ in blocks] == ["sh", "toml", "sh", "", "sh"], [kind for kind, _ in blocks]
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (folder / "LICENSE").symlink_to(ROOT / "LICENSE")
        (folder / "build").mkdir()
        (folder / "build/longhaul").symlink_to(LONGHAUL)
        said = []
        for kind, text in blocks:
            if kind == "toml":
                (folder / re.match(r"# (\S+)\n", text).group(1)).write_text(text, encoding="utf-8")
            elif kind == "sh":
                said += [run(line, folder) for line in text.splitlines()]

        # The page's table: its words and bits, and intervals that meet the page's, for another processor sums in
        # another order. The licence is text that nobody edits; a model of other text has other prices.
        shown, printed = blocks[3][1].splitlines(), said[3].splitlines()
        at = printed.index(shown[0])
        assert printed[at + 1].split() == shown[1].split(), printed[at + 1]
        for old, new in zip(shown[3:], printed[at + 3:]):
            assert old.split()[:2] == new.split()[:2], (old, new)
            assert figures(old)[0] == figures(new)[0], ("bits", old, new)
            assert max(figures(old)[2], figures(new)[2]) <= min(figures(old)[3], figures(new)[3]), (old, new)
        assert "The gradient of all parameters" in said[3]
        assert "All boundaries of S stages" in (folder / "price.html").read_text(encoding="utf-8")

        document = json.loads((folder / "choice.json").read_text(encoding="utf-8"))
        choice, = document["choices"]
        assert len(choice["choice"]) == 3 and choice["prices_added_nat_per_token"]["value"] <= 0.05, choice
        with open(folder / "rows.csv", newline="", encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row["part"] == "verified"]
        assert sorted(int(row["row"]) for row in rows) == list(range(24, 48)), rows
        deltas = [float(row["loss_nat_per_token"]) - float(row["uncompressed_nat_per_token"]) for row in rows]
        seen = choice["on_other_rows_nat_per_token"]
        assert abs(sum(deltas) / 24 - seen["value"]) < 1e-12, (deltas, seen)


main()
