#!/usr/bin/env python3
"""Every link between the pages of this tree leads to a file that is there, and to a heading of it. Usage: links.py REPO"""

import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])
FOLDERS = "bench compressors docs examples experiments netem planning plugin pp_group scripts tests".split()


def text_of(page):
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchor(heading):
    """As GitHub makes it: a link's text alone, lower case, no punctuation, blanks as dashes."""
    heading = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors_of(page):
    return {anchor(heading) for heading in re.findall(r"^#+ (.*)$", text_of(page), re.MULTILINE)}


def main():
    pages = sorted(ROOT.glob("*.md")) + sorted(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))
    wrong, links = [], 0
    for page in pages:
        for link in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
            if re.match(r"\w+:", link):
                continue
            links += 1
            path, _, heading = link.partition("#")
            there = page.parent / path if path else page
            if not there.exists():
                wrong.append(f"{page.relative_to(ROOT)}: ({link}): no such file")
            elif heading and heading not in anchors_of(there):
                wrong.append(f"{page.relative_to(ROOT)}: ({link}): no such heading")
    assert links > 200, f"only {links} links found in {len(pages)} pages: are these the pages?"
    sys.exit("\n".join(wrong) or 0)


main()
