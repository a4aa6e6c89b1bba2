"""What the reading commands print, held to what they printed before.

    approval.py LONGHAUL ROOT [--write] [FAMILY ...]

A family is a file FAMILY.txt beside this one: a case a line, `NAME: words of longhaul`. OUT in the words is an empty
folder that is this case's own; every file that the command leaves there is compared too, but for figures and records.
Each case has its answer in golden/FAMILY/NAME.txt: exit status, standard output, standard error, files.

Words agree exactly. A number with a fraction agrees to 1e-9 of its value, or to one in the last digit that is printed.
"""

import concurrent.futures
import difflib
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
NUMBER = re.compile(r"[-+]?\d+\.\d+(?:[eE][-+]?\d+)?|[-+]?\d+[eE][-+]?\d+")
SKIPPED = {".svg", ".sqlite", ".sqlite-wal", ".sqlite-shm", ".png"}


def cases(families):
    for family in families:
        for line in (HERE / f"{family}.txt").read_text(encoding="utf-8").splitlines():
            if line.strip() and not line.startswith("#"):
                name, _, words = line.partition(":")
                yield family, name.strip(), shlex.split(words)


def answer(longhaul, root, words):
    with tempfile.TemporaryDirectory() as scratch:
        for link in ("docs", "examples", "experiments", "planning", "tests", "python"):
            if (root / link).exists():
                (pathlib.Path(scratch) / link).symlink_to(root / link)
        out = pathlib.Path(scratch) / "out"
        out.mkdir()
        done = subprocess.run([longhaul, *(word.replace("OUT", "out") for word in words)], capture_output=True, text=True,
                              cwd=scratch, timeout=600, check=False, stdin=subprocess.DEVNULL)
        parts = [f"== status {done.returncode}\n", "== standard output\n", done.stdout, "== standard error\n", done.stderr]
        for path in sorted(out.rglob("*")):
            if path.is_file() and path.suffix not in SKIPPED:
                parts += [f"== {path.relative_to(out)}\n", path.read_text(encoding="utf-8")]
        return "".join(parts).replace(scratch, "SCRATCH").replace(str(root), "ROOT")


def agree(a, b):
    if a == b:
        return True
    x, y = float(a), float(b)
    digits = min(len(t.lower().partition("e")[0].partition(".")[2]) for t in (a, b))
    exponent = int((a.lower().partition("e")[2] or "0"))
    return abs(x - y) <= max(1e-9 * max(abs(x), abs(y)), 1.0001 * 10.0 ** (exponent - digits) if digits >= 9 else 0)


def differ(want, got):
    """The first line that differs, or None."""
    ours, theirs = want.splitlines(), got.splitlines()
    for number, (a, b) in enumerate(zip(ours, theirs), 1):
        if a == b:
            continue
        split_a, split_b = NUMBER.split(a), NUMBER.split(b)
        if split_a != split_b or not all(map(agree, NUMBER.findall(a), NUMBER.findall(b))):
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
