#!/usr/bin/env python3
"""Puts each fault of tests/mutations/ into a copy of HEAD, one at a time, and sees its test fail.

tests/mutations/README.md says what a row of its tables means. Works in build/mutations, which holds a
clone of HEAD and the results so far: a run that was stopped goes on where it was, and a result is kept
until its row or anything outside docs/ changes. Exit status: 0 when every fault was caught or stands
as a survivor with its reason.
Usage: mutations.py [--only REGEX] [--table FILE]      (make test-mutations)
       mutations.py --check                            (make test): reads the tables and builds nothing
  --only REGEX  only the faults whose name matches
  --table FILE  also writes the verdicts there, as Markdown
  --check       every row must be complete and its text must be in its file once
"""
import argparse
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

TOP = pathlib.Path(__file__).resolve().parent.parent
TABLES = TOP / "tests" / "mutations"
WORK = TOP / "build" / "mutations"
TREE = WORK / "tree"
# A fault that makes its test hang is caught too, by this limit; the slowest test takes half of it.
TEST_LIMIT_S = 300
BUILD_LIMIT_S = 1800


def run(words, limit=None, **kw):
    """(exit status, output); a command past its limit has the status 124."""
    try:
        done = subprocess.run(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=limit, errors="replace", check=False, **kw)
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        return 124, str(late.stdout)


def must(words, **kw):
    status, output = run(words, **kw)
    if status:
        sys.exit(f"mutations: '{' '.join(map(str, words))}' failed with {status}:\n{output[-4000:]}")
    return output


KEYS = {"name", "what", "caught_by", "survives", "file", "find", "replace", "edit"}


def read_faults():
    """The rows of all tables; ends with one line for each that is not as it should be."""
    faults, wrong = [], []
    for path in sorted(TABLES.rglob("*.toml")):
        for row in tomllib.loads(path.read_text()).get("fault", []):
            row.setdefault("edit", [{k: row[k] for k in ("file", "find", "replace") if k in row}])
            faults.append(row)
            wrong += [f"{path.relative_to(TOP)}: {row.get('name', '?')}: {why}" for why in mistakes(row)]
    names = [row.get("name") for row in faults]
    wrong += [f"two faults are called {name}" for name in sorted({n for n in names if names.count(n) > 1})]
    if wrong:
        sys.exit("\n".join(f"mutations: {line}" for line in wrong))
    return faults


def mistakes(row):
    if not row.get("name") or not row.get("what") or bool(row.get("caught_by")) == bool(row.get("survives")):
        yield "wants name, what, and one of caught_by and survives"
    yield from (f"unknown key {key}" for key in sorted(row.keys() - KEYS))
    for edit in row["edit"]:
        if edit.keys() != {"file", "find", "replace"} or edit["find"] == edit["replace"]:
            yield "every edit wants file, find and another replace"
            continue
        path = TOP / edit["file"]
        count = path.read_text().count(edit["find"]) if path.is_file() else 0
        if not path.is_file():
            yield f"there is no {edit['file']}"
        elif count != 1:
            yield f"{edit['file']} has this text {count} times, wanted once: {edit['find'].strip()[:80]}"


def prepare_tree(work=WORK):
    """A clone of HEAD in WORK, clean, with a configured build folder. Returns HEAD's code as one hash."""
    global WORK, TREE
    WORK, TREE = work, work / "tree"
    head = must(["git", "rev-parse", "HEAD"], cwd=TOP).strip()
    if not (TREE / ".git").exists():
        shutil.rmtree(TREE, ignore_errors=True)
        WORK.mkdir(parents=True, exist_ok=True)
        must(["git", "clone", "--quiet", "--shared", str(TOP), str(TREE)])
    must(["git", "fetch", "--quiet", "origin", "HEAD"], cwd=TREE)
    must(["git", "checkout", "--quiet", "--force", head], cwd=TREE)
    python = os.environ.get("TORCH_PYTHON") or str(TOP / ".venv/bin/python")
    must(["cmake", "--preset", "release", f"-DTORCH_PYTHON={python}", "-DLONGHAUL_JOIN=TESTS"], cwd=TREE)
    listing = must(["git", "ls-tree", "-r", "HEAD"], cwd=TREE)
    code = [row for row in listing.splitlines() if "\tdocs/" not in row and "\ttests/mutations/" not in row]
    return hashlib.sha256("\n".join(code).encode()).hexdigest()


def targets_of(test, known):
    """What must be built before a test of ctest's list can run."""
    guest = re.fullmatch(r"netem_guest_(\w+)", test)
    for name in (test, f"netem_{guest.group(1)}_test" if guest else ""):
        if name in known:
            return [name]
    return ["longhaul_everything_but_tests"]  # scripts, which start programs and Python that we built


def build_and_test(test, known):
    """("passed" | "failed" | "hung" | "unbuilt", output)"""
    targets = targets_of(test, known)
    if targets:
        status, output = run(["cmake", "--build", "build", "--target", *targets], BUILD_LIMIT_S, cwd=TREE)
        if status:
            return "unbuilt", output
    words = ["ctest", "--test-dir", "build", "-R", f"^{re.escape(test)}$", "--no-tests=error",
             "--output-on-failure", "--timeout", str(TEST_LIMIT_S)]
    # The first assertion that fails is enough.
    status, output = run(words, TEST_LIMIT_S + 60, cwd=TREE, env={**os.environ, "GTEST_FAIL_FAST": "1"})
    if "No tests were found" in output:
        return "unbuilt", f"no test is called {test}"
    if "***Skipped" in output:
        return "skipped", output
    if status and "***Timeout" in output:
        return "hung", output
    return ("failed" if status else "passed"), output


class Runner:
    def __init__(self, code):
        self.code = code
        listing = must(["ninja", "-C", "build", "-t", "targets", "all"], cwd=TREE)
        self.known = set(re.findall(r"(?m)^(\w+): phony", listing))
        self.sound = {}  # test -> what it does without any fault

    def judge(self, fault):
        """(verdict, details); anything but "caught" and "survives" fails the run."""
        if "survives" in fault:
            return "survives", fault["survives"]
        test = fault["caught_by"]
        if test not in self.sound:
            self.sound[test] = build_and_test(test, self.known)
        outcome, output = self.sound[test]
        if outcome != "passed":
            return f"void: without the fault its test {outcome}", output
        sound = {TREE / edit["file"]: (TREE / edit["file"]).read_text() for edit in fault["edit"]}
        try:
            for edit in fault["edit"]:
                path = TREE / edit["file"]
                path.write_text(path.read_text().replace(edit["find"], edit["replace"]))
            outcome, output = build_and_test(test, self.known)
        finally:
            for path, text in sound.items():
                path.write_text(text)
        if outcome in ("failed", "hung"):
            return "caught", "hung" if outcome == "hung" else ""
        return {"passed": "NOT CAUGHT", "unbuilt": "does not build"}.get(outcome, outcome), output

    def result(self, fault):
        key = hashlib.sha256((self.code + json.dumps(fault)).encode()).hexdigest()[:16]
        kept = WORK / "results" / f"{fault['name']}-{key}.json"
        if kept.exists():
            return json.loads(kept.read_text())
        start = time.monotonic()
        verdict, details = self.judge(fault)
        row = {"verdict": verdict, "details": details[-3000:], "seconds": time.monotonic() - start}
        if verdict in ("caught", "survives"):
            kept.parent.mkdir(exist_ok=True)
            kept.write_text(json.dumps(row))
        return row


def table(rows):
    lines = ["| fault | caught by | verdict |", "|---|---|---|"]
    for fault, row in rows:
        by = f"`{fault['caught_by']}`" if "caught_by" in fault else "-"
        note = f": {row['details']}" if row["verdict"] in ("caught", "survives") and row["details"] else ""
        lines.append(f"| {fault['what']} (`{fault['name']}`) | {by} | {row['verdict']}{note} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--table")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    faults = [fault for fault in read_faults() if re.search(options.only, fault["name"])]
    if not faults:
        sys.exit(f"mutations: no fault in tests/mutations is called like '{options.only}'")
    if options.check:
        print(f"{len(faults)} faults: each has its text in its file once")
        return
    runner = Runner(prepare_tree())
    rows = []
    for at, fault in enumerate(faults, 1):
        row = runner.result(fault)
        rows.append((fault, row))
        print(f"{at}/{len(faults)} {fault['name']}: {row['verdict']} ({row['seconds']:.0f} s)", flush=True)
        if row["verdict"] not in ("caught", "survives"):
            print(re.sub(r"(?m)^", "    ", row["details"][-1500:]), flush=True)
    if options.table:
        pathlib.Path(options.table).write_text(table(rows) + "\n")
    caught = sum(row["verdict"] == "caught" for _, row in rows)
    survived = sum(row["verdict"] == "survives" for _, row in rows)
    wrong = [(fault, row) for fault, row in rows if row["verdict"] not in ("caught", "survives")]
    for fault, row in wrong:
        print(f"  {fault['name']}: {row['verdict']}")
    print(f"{len(rows)} faults: {caught} caught, {survived} survive with a reason, {len(wrong)} not as listed")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
