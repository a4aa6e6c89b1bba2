"""The result pages and their details state each cost with its conditions, and each figure of their tables is one of the files beside them.

    result_pages_test.py ROOT

- A table with q has K in a column or in the column's head, and the page says how many tokens a parameter had.
- A table of losses, eta or q of arms has the codec both off and on at evaluation.
- A sentence with a measured q names its K.
- `x [low, high]` below a head "Delta ..", "eta .." or "q .., codec off" (or on) is a row of an arms.csv of the page's folder,
  rounded to the digits that are printed. Rows that pool several campaigns are left out: their seeds lie in several files.
"""

import csv
import re
import sys
from pathlib import Path

ROOT = Path(sys.argv[1])
RESULTS = ROOT / "docs/results"
PAGES = [RESULTS / name / "README.md" for name in
         ("demo-design", "activation-small", "activation-deep", "law", "position-rate", "orderings")]
PAGES += [page.with_name("details.md") for page in PAGES if page.with_name("details.md").exists()] + [ROOT / "docs/demo.md"]
FOLDERS = {ROOT / "docs/demo.md": RESULTS / "demo-design/seeds-1"}
KEYS = {"Delta": "delta", "loss difference": "delta", "eta": "eta", "q": "q"}
INTERVAL = re.compile(r"(-?\d+\.(\d+)) \[(?:<= )?(-?\d+\.\d+), (-?\d+\.\d+)\]")
POOLED = ("100 to 115", "all 20")


def tables(text):
    """Lists of rows; a row is a list of cells."""
    rows = []
    for line in [*text.splitlines(), ""]:
        if line.lstrip().startswith("|"):
            rows.append([cell.strip().replace("**", "") for cell in line.strip().strip("|").split("|")])
        elif rows:
            yield rows
            rows = []


def measured(page):
    """{(quantity, evaluation): [(value, low, high)]}"""
    found = {}
    for path in sorted(FOLDERS.get(page, page.parent).glob("**/arms.csv")):
        if "first" in path.parts:
            continue
        with path.open(encoding="utf-8") as lines:
            for row in csv.DictReader(lines):
                for quantity, value in (("delta", "delta_nat"), ("eta", "eta"), ("q", "q")):
                    ends = [row[value], row[quantity + "_low"], row[quantity + "_high"]]
                    if all(ends):
                        found.setdefault((quantity, row["evaluation"]), []).append([float(x) for x in ends])
    return found


def column(heads, i):
    """What a column has: its quantity, "off" or "on"; of a table turned over, its first cell."""
    words = " ".join(heads[i - 1:i + 1] if heads[i] == "codec on" else [heads[i]])
    quantity = next((key for name, key in KEYS.items() if re.match(name + r"\b", words)), None)
    evaluation = "on" if heads[i].endswith("codec on") else "off" if "codec off" in heads[i] else None
    return quantity, evaluation


def check_table(page, rows, known, wrong):
    heads = rows[0]
    across = [column(heads, i) for i in range(len(heads))]
    down = [column([row[0]], 0) for row in rows]
    kinds = [c for c in across + down if c[0] and c[1]]
    if any(c[0] == "q" for c in across + down) and not any("K" in re.findall(r"\w+", cell) for row in rows for cell in (*heads, row[0])):
        wrong.append(f"{page}: a table with q has no K: {heads}")
    for quantity in {c[0] for c in kinds}:
        if {c[1] for c in kinds if c[0] == quantity} != {"off", "on"} and not (page.parent.name in ("law", "orderings") and quantity != "delta"):
            wrong.append(f"{page}: a table has {quantity} with the codec off or on, and not both: {heads}")
    checked = 0
    for r, row in enumerate(rows[2:], 2):
        if row[0] in POOLED:
            continue
        for i, cell in enumerate(row):
            kind = across[i] if all(across[i]) else down[r]
            match = INTERVAL.search(cell)
            if not all(kind) or not match:
                continue
            digits = len(match.group(2))
            want = [float(match.group(k)) for k in (1, 3, 4)]
            if not any(all(abs(a - b) <= 0.5000001 * 10**-digits for a, b in zip(want, ends)) for ends in known.get(kind, [])):
                wrong.append(f"{page}: {' '.join(kind)}: no arms.csv has {match.group(0)}")
            checked += 1
    return checked


def main():
    wrong, checked = [], 0
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        known = measured(page)
        for rows in tables(text):
            checked += check_table(page, rows, known, wrong)
        if page.name != "details.md" and not re.search(r"tokens (\(bytes\) )?per parameter", text):
            wrong.append(f"{page}: does not say how many tokens a parameter had")
        prose = re.sub(r"^ *```.*?^ *```|^ *\|.*?$", "", text, flags=re.MULTILINE | re.DOTALL)
        for part in re.split(r"\n\s*\n|\n- ", prose):
            if re.search(r"\bq(_\w)?\b[^.|;]{0,25}\d\.\d{3,} \[", part) and not re.search(r"\bK\b|\b\d+ crossings", part):
                wrong.append(f"{page}: a q without its K: {' '.join(part.split())[:200]}")
    assert checked > 200, checked  # an expression that finds nothing would pass
    print(f"{checked} figures checked")
    if wrong:
        sys.exit("\n".join(wrong))


main()
