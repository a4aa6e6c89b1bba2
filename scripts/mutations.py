#!/usr/bin/env python3
"""Puts each fault of tests/mutations/ into a copy of HEAD, one at a time, and sees its test fail.

A patch begins with "Fault:" and "Caught-by: TEST", or "Survives: REASON" where no test can be had.
Works in build/mutations, which holds a clone of HEAD and the results so far: a run that was stopped
goes on where it was, and a result is kept until its patch or anything outside docs/ changes.
Exit status: 0 when every fault was caught or stands as a survivor with its reason.
Usage: mutations.py [--only REGEX] [--table FILE]      (make test-mutations)
  --only REGEX  only the patches whose name matches
  --table FILE  also writes the table there, as Markdown
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

TOP = pathlib.Path(__file__).resolve().parent.parent
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


def read_patch(path):
    head, patch = path.read_text(), {"name": path.stem, "path": path}
    for key in ("Fault", "Caught-by", "Survives"):
        found = re.search(rf"(?m)^{key}: (.+)$", head.split("\ndiff ", 1)[0])
        patch[key] = found.group(1).strip() if found else ""
    if not patch["Fault"] or bool(patch["Caught-by"]) == bool(patch["Survives"]):
        sys.exit(f"mutations: {path}: wants 'Fault:' and one of 'Caught-by:' and 'Survives:' before its diff")
    return patch


def prepare_tree():
    """A clone of HEAD, clean, with a configured build folder. Returns HEAD's code as one hash."""
    head = must(["git", "rev-parse", "HEAD"], cwd=TOP).strip()
    if not (TREE / ".git").exists():
        shutil.rmtree(TREE, ignore_errors=True)
        WORK.mkdir(parents=True, exist_ok=True)
        must(["git", "clone", "--quiet", "--shared", str(TOP), str(TREE)])
    must(["git", "fetch", "--quiet", "origin", "HEAD"], cwd=TREE)
    must(["git", "checkout", "--quiet", "--force", head], cwd=TREE)
    python = os.environ.get("TORCH_PYTHON") or str(TOP / ".venv/bin/python")
    must(["cmake", "--preset", "release", f"-DTORCH_PYTHON={python}"], cwd=TREE)
    listing = must(["git", "ls-tree", "-r", "HEAD"], cwd=TREE)
    code = [row for row in listing.splitlines() if "\tdocs/" not in row and "\ttests/mutations/" not in row]
    return hashlib.sha256("\n".join(code).encode()).hexdigest()


def targets_of(test, known):
    """What must be built before a test of ctest's list can run."""
    guest = re.fullmatch(r"netem_guest_(\w+)", test)
    for name in (test, f"netem_{guest.group(1)}_test" if guest else ""):
        if name in known:
            return [name]
    return ["longhaul_everything_but_tests"] if test.startswith("backend_python_") else []


def build_and_test(test, known):
    """("passed" | "failed" | "hung" | "unbuilt", output)"""
    targets = targets_of(test, known)
    if targets:
        status, output = run(["cmake", "--build", "build", "--target", *targets], BUILD_LIMIT_S, cwd=TREE)
        if status:
            return "unbuilt", output
    words = ["ctest", "--test-dir", "build", "-R", f"^{re.escape(test)}$", "--no-tests=error",
             "--output-on-failure", "--timeout", str(TEST_LIMIT_S)]
    status, output = run(words, TEST_LIMIT_S + 60, cwd=TREE)
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

    def apply(self, patch, *options):
        return run(["git", "apply", *options, str(patch["path"])], cwd=TREE)

    def judge(self, patch):
        """(verdict, details); anything but "caught" and "survives" fails the run."""
        status, output = self.apply(patch, "--check")
        if status:
            return "does not apply", output
        if patch["Survives"]:
            return "survives", patch["Survives"]
        test = patch["Caught-by"]
        if test not in self.sound:
            self.sound[test] = build_and_test(test, self.known)
        outcome, output = self.sound[test]
        if outcome != "passed":
            return f"void: without the fault its test {outcome}", output
        self.apply(patch)
        try:
            outcome, output = build_and_test(test, self.known)
        finally:
            self.apply(patch, "--reverse")
        if outcome in ("failed", "hung"):
            return "caught", "hung" if outcome == "hung" else ""
        return {"passed": "NOT CAUGHT", "unbuilt": "does not build"}.get(outcome, outcome), output

    def result(self, patch):
        key = hashlib.sha256(self.code.encode() + patch["path"].read_bytes()).hexdigest()[:16]
        kept = WORK / "results" / f"{patch['name']}-{key}.json"
        if kept.exists():
            return json.loads(kept.read_text())
        start = time.monotonic()
        verdict, details = self.judge(patch)
        row = {"verdict": verdict, "details": details[-3000:], "seconds": time.monotonic() - start}
        if verdict in ("caught", "survives"):
            kept.parent.mkdir(exist_ok=True)
            kept.write_text(json.dumps(row))
        return row


def table(rows):
    lines = ["| fault | caught by | verdict |", "|---|---|---|"]
    for patch, row in rows:
        by = f"`{patch['Caught-by']}`" if patch["Caught-by"] else "-"
        note = f": {row['details']}" if row["verdict"] in ("caught", "survives") and row["details"] else ""
        lines.append(f"| {patch['Fault']} (`{patch['name']}`) | {by} | {row['verdict']}{note} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--table")
    options = parser.parse_args()
    patches = [read_patch(p) for p in sorted((TOP / "tests/mutations").glob("*.patch"))]
    patches = [p for p in patches if re.search(options.only, p["name"])]
    if not patches:
        sys.exit(f"mutations: no patch in tests/mutations matches '{options.only}'")
    runner = Runner(prepare_tree())
    rows = []
    for at, patch in enumerate(patches, 1):
        row = runner.result(patch)
        rows.append((patch, row))
        print(f"{at}/{len(patches)} {patch['name']}: {row['verdict']} ({row['seconds']:.0f} s)", flush=True)
        if row["verdict"] not in ("caught", "survives"):
            print(re.sub(r"(?m)^", "    ", row["details"][-1500:]), flush=True)
    if options.table:
        pathlib.Path(options.table).write_text(table(rows) + "\n")
    caught = sum(row["verdict"] == "caught" for _, row in rows)
    survived = sum(row["verdict"] == "survives" for _, row in rows)
    wrong = [(patch, row) for patch, row in rows if row["verdict"] not in ("caught", "survives")]
    for patch, row in wrong:
        print(f"  {patch['name']}: {row['verdict']}")
    print(f"{len(rows)} faults: {caught} caught, {survived} survive with a reason, {len(wrong)} not as listed")
    sys.exit(1 if wrong else 0)


main()
