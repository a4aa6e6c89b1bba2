#!/usr/bin/env python3
"""Compares what longhaul says of wrong input with tables: every message whole.

A table (*.txt) has sections "@ READER" of rows: a text, then what is said of it behind "=> ", "=> taken" for nothing.
Readers are those of readers.cc, which has one process for all rows. "@ run" starts `longhaul` with the text's words
in the table's folder; "=2> " names an exit status other than 1. "@ file NAME" writes its one text into that folder.
"!" as a text's first line: the next ones are a Python expression of str or bytes; source(PATH) is a file of the
project, made(NAME) one of the folder. Lines that begin with "#" before a row are comments.
Usage: refusals.py TABLE READERS LONGHAUL [--accept]     --accept writes what is said into the table
"""
import concurrent.futures
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]


def rows_of(table):
    """(section, body lines, expected lines) or a comment's or empty line as it is."""
    section, body, rows = None, [], []
    for line in table.read_text().splitlines():
        if not body and line.startswith("@ "):
            section = line[2:]
            rows.append(line)
        elif not body and (line.startswith("#") or not line):
            rows.append(line)
        elif re.match(r"=\d*>", line):
            rows.append((section, body, line))
            body = []
        else:
            body.append(line)
    assert not body, f"{table}: the last text has no answer: {body}"
    return rows


def text_of(body, folder):
    if body[:1] == ["!"]:
        reads = {"source": lambda path: (TOP / path).read_text(), "made": lambda path: pathlib.Path(folder, path).read_text()}
        text = eval("\n".join(body[1:]), reads)  # noqa: S307, the project's own table
        return text if isinstance(text, bytes) else text.encode()
    return ("\n".join(body) + "\n").encode() if body else b""


def said_by_command(longhaul, folder, body):
    done = subprocess.run([longhaul, *shlex.split(" ".join(body))], cwd=folder, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=120, check=False)
    return ("=>" if done.returncode == 1 else f"={done.returncode}>"), done.stdout


def answers(rows, readers, longhaul, folder):
    """The line that stands below each row."""
    asked = [row for row in rows if isinstance(row, tuple)]
    for section, body, _ in asked:
        if section.startswith("file "):
            pathlib.Path(folder, section[5:]).write_bytes(text_of(body, folder))
    read = [row for row in asked if row[0] != "run" and not row[0].startswith("file ")]
    done = subprocess.run([readers], input="".join(f"{s} {text_of(b, folder).hex()}\n" for s, b, _ in read), text=True,
                          stdout=subprocess.PIPE, cwd=folder, check=True)
    said = {id(row): ("=>", bytes.fromhex(line).decode(errors="backslashreplace"))
            for row, line in zip(read, done.stdout.splitlines(), strict=True)}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        run = [row for row in asked if row[0] == "run"]
        said |= dict(zip(map(id, run), pool.map(lambda row: said_by_command(longhaul, folder, row[1]), run)))
    for row in asked:
        mark, message = said.get(id(row), ("=>", ""))
        message = message.replace(folder, "FOLDER").removesuffix("\n").replace("\n", "\\n")
        yield f"{mark} {message or 'taken'}" if not row[0].startswith("file ") else "=> written"


def main():
    table, readers, longhaul = pathlib.Path(sys.argv[1]), *map(os.path.abspath, sys.argv[2:4])
    rows = rows_of(table)
    with tempfile.TemporaryDirectory() as folder:
        said = iter(list(answers(rows, readers, longhaul, folder)))
        if pathlib.Path(folder, "r").exists():
            sys.exit(f"{table.name}: what was refused left a record")
    new, wrong = [], 0
    for row in rows:
        if isinstance(row, str):
            new.append(row)
            continue
        section, body, wanted = row
        line = next(said)
        new += [*body, line]
        if line != wanted:
            wrong += 1
            print(f"[{section}] {' / '.join(body)}\n  wanted {wanted}\n  said   {line}")
    if "--accept" in sys.argv:
        table.write_text("\n".join(new) + "\n")
    elif wrong:
        sys.exit(f"{table.name}: {wrong} rows differ; refusals.py ... --accept writes them")
    print(f"{table.name}: {sum(isinstance(row, tuple) for row in rows)} rows")


main()
