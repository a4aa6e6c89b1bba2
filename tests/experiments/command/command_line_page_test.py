"""docs/reference/command-line.md is the help of every command, and every help keeps the rules of the writing guide.

    command_line_page_test.py LONGHAUL ROOT            compares
    command_line_page_test.py LONGHAUL ROOT --write    writes the page
"""

import os
import pathlib
import re
import subprocess
import sys

LONGHAUL, ROOT = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
PAGE = ROOT / "docs/reference/command-line.md"
INTRO = """# Command line

Each command prints its text with `--help`. In a clone the command is `build/longhaul`. Exit status and environment
variables: [environment](environment.md). Keys of specs: [spec keys](spec-keys.md).
"""
SECTIONS = {"Arguments", "Options", "Example", "Examples", "Subcommands"}


def helped(*words):
    done = subprocess.run([LONGHAUL, *words, "--help"], capture_output=True, text=True, timeout=60, check=False,
                          env={**os.environ, "COLUMNS": "100"})
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout.strip("\n")


def section(text, name):
    found = re.search(rf"^{name}:\n((?:  .*\n?)*)", text, re.MULTILINE)
    return found[1] if found else ""


def rows(block):
    """(name, text) of each row of a block of help."""
    found = []
    for line in block.splitlines():
        if re.match(r"  \S", line):
            name, _, text = line[2:].partition("  ")
            found.append([name, text.strip()])
        else:
            found[-1][1] = f"{found[-1][1]} {line.strip()}".strip()
    return found


def check(words, text):
    """The rules of help texts in docs/contributing/writing.md."""
    where = " ".join(("longhaul", *words))
    description = text.split("\n\n")[0]
    said = [description, *(row[1] for name in ("Arguments", "Options", "Subcommands") for row in rows(section(text, name)))]
    for sentence in said:
        assert re.match(r"[A-Z[]|model\.safetensors|FILE", sentence), f"{where}: '{sentence}' has no capital first letter"
        assert not re.search(r"[^.]\.$", sentence), f"{where}: '{sentence}' ends with a full stop"
        assert not re.search(r"\(default|default:(?<!\[default:)", sentence), f"{where}: '{sentence}': write [default: ..]"
    assert f"Usage: {where}" in text, f"{where}: no usage"
    assert words == () or re.search(r"^Examples?[:,]", text, re.MULTILINE), f"{where}: no example"


def page():
    top = helped()
    check((), top)
    parts = [INTRO, f"```\n{top}\n```\n"]
    for group in re.findall(r"^(\S.*):$", top, re.MULTILINE):
        if group in SECTIONS:
            continue
        parts.append(f"## {group}\n")
        for name, _ in rows(section(top, group)):
            pending = [(name,)]
            while pending:
                words = pending.pop(0)
                text = helped(*words)
                check(words, text)
                parts.append(f"### longhaul {' '.join(words)}\n\n```\n{text}\n```\n")
                pending = [(*words, below) for below, _ in rows(section(text, "Subcommands"))] + pending
    return "\n".join(parts)


def main():
    text = page()
    if "--write" in sys.argv:
        PAGE.write_text(text, encoding="utf-8")
        return
    stands = PAGE.read_text(encoding="utf-8")
    if text != stands:
        sys.exit("docs/reference/command-line.md is not the help of the commands; write it anew with --write")


main()
