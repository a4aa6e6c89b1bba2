"""What the reading commands print, held to what they printed before.

    approval.py LONGHAUL ROOT [--write] [FAMILY ...]

A family is a file FAMILY.txt beside this one: a case a line, `NAME: words of longhaul`. OUT in the words is an empty
folder that is this case's own; every file that the command leaves there is compared too, but for figures and records,
and what matches a word that begins with "!". records/NAME is a record: what records/NAME.sql.xz beside this file makes,
or what HOSTILE does.
Each case has its answer in golden/FAMILY/NAME.txt: exit status, standard output, standard error, files.

Times of day are not compared; a JSON document is compared a row a line, and of its runs the first three.
Words agree exactly. A number with a fraction agrees to 1e-6 of its value, or to one in the last digit that is printed: the
optimum of depth model M4 is flat, and processors that add in another order move it in the eighth digit.
"""

import concurrent.futures
import difflib
import functools
import json
import lzma
import os
import pathlib
import re
import shlex
import sqlite3
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
NUMBER = re.compile(r"[-+]?\d+\.\d+(?:[eE][-+]?\d+)?|[-+]?\d+[eE][-+]?\d+")
VOLATILE = ((re.compile(r"written \d{4}-\d\d-\d\dT\d\d:\d\d"), "written NOW"),
            (re.compile(r"<svg xmlns:xlink.*?</svg>", re.DOTALL), "<svg/>"))  # figures hang on the version of matplotlib
SKIPPED = {".log", ".svg", ".sqlite", ".sqlite-wal", ".sqlite-shm", ".png", ".lock"}
TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?")


def cases(families):
    for family in families:
        for line in (HERE / f"{family}.txt").read_text(encoding="utf-8").splitlines():
            if line.strip() and not line.startswith("#"):
                name, _, words = line.partition(":")
                yield family, name.strip(), shlex.split(words)


def rows(text):
    """A JSON document with one row of a list a line; other text as it is."""
    try:
        document = json.loads(text)
    except ValueError:
        return text

    def line(value):
        if isinstance(value, dict) and any(isinstance(item, (dict, list)) for item in value.values()):
            inner = ((key, item[:3] if key == "runs" and isinstance(item, list) else item) for key, item in value.items())
            return "{\n" + "".join(f"{json.dumps(key)}: {line(item)}\n" for key, item in inner) + "}"
        if isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
            return "[\n" + "".join(line(item) + "\n" for item in value) + "]"
        return json.dumps(value)

    return line(document) + "\n"


@functools.cache
def sql_of(name):
    return lzma.decompress((HERE / "records" / f"{name}.sql.xz").read_bytes()).decode()


def write_record(folder, sql):
    folder.mkdir(parents=True)
    db = sqlite3.connect(folder / "longhaul.sqlite")
    db.executescript(sql)
    db.close()
    return folder / "longhaul.sqlite"


CHILDREN = ("steps", "crossings", "evaluations", "estimates", "run_facts", "runs")
HOSTILE = {
    "newer": lambda at: write_record(at, "PRAGMA user_version = 3; CREATE TABLE experiments (id)"),
    "begun": lambda at: write_record(at, "CREATE TABLE experiments (id)"),
    "lacking": lambda at: write_record(at, "PRAGMA user_version = 2; CREATE TABLE runs (id)"),
    "no-database": lambda at: write_record(at, "").write_text("this is no database, however long it is\n" * 20),
    "cut": lambda at: os.truncate(write_record(at, sql_of("better")), 20000),
    "edited": lambda at: write_record(at, sql_of("better") + "UPDATE experiments SET plan_text = plan_text || '#';"),
    "empty": lambda at: at.mkdir(parents=True),
    "no-runs": lambda at: write_record(at, sql_of("better") + "".join(f"DELETE FROM {t};" for t in CHILDREN)),
}


def make_records(words, scratch):
    """The records that the words of a case name; records alone holds two."""
    for name in {n for word in words if word.split("/")[0] == "records" for n in word.split("/")[1:2] or ("better", "newer")}:
        if name in HOSTILE:
            HOSTILE[name](scratch / "records" / name)
        elif (HERE / "records" / f"{name}.sql.xz").exists():
            write_record(scratch / "records" / name, sql_of(name))


def answer(longhaul, root, words):
    with tempfile.TemporaryDirectory() as scratch:
        for link in ("docs", "examples", "experiments", "planning", "tests", "python"):
            if (root / link).exists():
                (pathlib.Path(scratch) / link).symlink_to(root / link)
        out = pathlib.Path(scratch) / "out"
        out.mkdir()
        left_out = [word[1:] for word in words if word.startswith("!")]
        words = [word.replace("OUT", "out") for word in words if not word.startswith("!")]
        make_records(words, pathlib.Path(scratch))
        done = subprocess.run([longhaul, *words], capture_output=True, text=True,
                              cwd=scratch, timeout=600, check=False, stdin=subprocess.DEVNULL)
        parts = [f"== status {done.returncode}\n", "== standard output\n", rows(done.stdout), "== standard error\n", done.stderr]
        for path in sorted(out.rglob("*")):
            if path.is_file() and path.suffix not in SKIPPED and not any(path.match(one) for one in left_out):
                parts += [f"== {path.relative_to(out)}\n", rows(path.read_text(encoding="utf-8"))]
        text = "".join(parts)
        for volatile, name in VOLATILE:
            text = volatile.sub(name, text)
        return TIME.sub("TIME", text).replace(scratch, "SCRATCH").replace(str(root), "ROOT")


def agree(a, b):
    if a == b:
        return True
    x, y = float(a), float(b)
    digits = min(len(t.lower().partition("e")[0].partition(".")[2]) for t in (a, b))
    exponent = int((a.lower().partition("e")[2] or "0"))
    return abs(x - y) <= max(1e-6 * max(abs(x), abs(y)), 1.0001 * 10.0 ** (exponent - digits))


def differ(want, got):
    """The first line that differs, or None."""
    ours, theirs = want.splitlines(), got.splitlines()
    for number, (a, b) in enumerate(zip(ours, theirs), 1):
        if a == b:
            continue
        split_a, split_b = NUMBER.split(a), NUMBER.split(b)
        if split_a != split_b or not all(
                agree(x, y) for x, y in zip(NUMBER.findall(a), NUMBER.findall(b))):
            return f"line {number}:\n  was: {a[:400]}\n  is:  {b[:400]}"
    if len(ours) != len(theirs):
        extra = "\n".join(list(difflib.unified_diff(ours, theirs, "was", "is", lineterm="", n=1))[:20])
        return f"{len(ours)} lines were, {len(theirs)} are:\n{extra}"
    return None


def main():
    longhaul, root = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    write = "--write" in sys.argv
    families = [word for word in sys.argv[3:] if word != "--write"] or sorted(p.stem for p in HERE.glob("*.txt"))
    every, failed = list(cases(families)), 0
    assert every, families
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        answers = pool.map(lambda case: answer(longhaul, root, case[2]), every)
        for (family, name, _), got in zip(every, answers):
            golden = HERE / "golden" / family / f"{name}.txt"
            if write:
                golden.parent.mkdir(parents=True, exist_ok=True)
                golden.write_text(got, encoding="utf-8")
                continue
            wrong = differ(golden.read_text(encoding="utf-8"), got) if golden.exists() else "has no answer yet"
            if wrong:
                failed += 1
                print(f"{family}/{name}: {wrong}", flush=True)
    print(f"{len(every)} cases, {failed} differ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
