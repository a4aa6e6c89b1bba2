#!/usr/bin/env python3
"""Runs ctest in a build folder, then names every skipped test with its reason.

A test fails the first time it fails. Only tests labelled `physical`, which measure time or rates on a
machine that others may be using, are run once more, alone, and named: what they printed the first time
is kept in BUILD/first-failures/. A crash, a time-out and a sanitizer's report are never tried again.

Two tests more at a time than there are cores: most of their time they wait. Those that measure run alone.
Usage: scripts/run_tests.py BUILD [ctest options]
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

from skipped import blocks, skips

CRASHED = re.compile(r"Exception|Timeout|Not Run")  # ctest's word after "***"
REPORTS = re.compile(r"ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|runtime error: |"
                     r"Segmentation fault|core dumped|Assertion .* failed|terminate called")


def ctest(build, *options):
    """ctest's exit status and what it printed, which is also shown as it comes."""
    words = ["ctest", "--test-dir", build, "--output-on-failure", "--timeout", "300", *options]
    printed = []
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace") as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            printed.append(line)
    return process.returncode, "".join(printed)


def outcomes(printed):
    """{test: "Passed" or what ctest says behind ***}"""
    row = re.compile(r"^ *\d+/\d+ Test +#\d+: (\S+) [. ]*(?:\*\*\*)?([A-Z][\w :-]*?) +[\d.]+ sec", re.M)
    return dict(row.findall(printed))


def last_log(build):
    return (pathlib.Path(build) / "Testing/Temporary/LastTest.log").read_text(errors="replace")


def physical(build):
    listing = subprocess.run(["ctest", "--test-dir", build, "-N", "-L", "^physical$"], text=True,
                             stdout=subprocess.PIPE, check=True).stdout
    return set(re.findall(r"(?m)^ *Test +#\d+: (\S+)", listing))


def may_be_tried_again(word, output):
    return not CRASHED.search(word) and not REPORTS.search(output)


def main():
    build, options = sys.argv[1], sys.argv[2:]
    cores = len(os.sched_getaffinity(0))
    status, printed = ctest(build, "-j", str(cores + 2), *options)
    first = outcomes(printed)
    output = dict(blocks(last_log(build)))
    failed = {n: w for n, w in first.items() if w != "Passed" and not w.startswith("Skipped")}
    skipped = list(skips(last_log(build)))

    kept = pathlib.Path(build) / "first-failures"
    shutil.rmtree(kept, ignore_errors=True)
    measured = physical(build) if failed else set()
    again = [n for n, w in failed.items() if n in measured and may_be_tried_again(w, output.get(n, ""))]
    passed_again = []
    if again:
        kept.mkdir()
        for name in again:
            (kept / f"{name}.log").write_text(output.get(name, ""))
        print("\nMeasurements that failed, once more, each alone:", flush=True)
        _, printed = ctest(build, "-j", "1", "-R", "^(" + "|".join(map(re.escape, again)) + ")$")
        passed_again = [n for n, w in outcomes(printed).items() if w == "Passed"]
        for name in passed_again:
            del failed[name]

    print("\nSkipped, with reasons:")
    for name, reason in skipped:
        print(f"  {name}: {reason}")
    print(f"  {len(skipped)} skipped in all")
    print("\nPassed only when measured again:")
    for name in passed_again:
        print(f"  {name}; what it printed the first time: {kept / (name + '.log')}")
    if not passed_again:
        print("  none")
    if failed:
        print("\nFailed:")
        for name, word in sorted(failed.items()):
            print(f"  {name} ({word})")
    whole = sum(w.startswith("Skipped") for w in first.values())
    if status and not first:
        sys.exit(f"run_tests: ctest ended with {status} and ran no test")
    passed = len(first) - len(failed) - whole
    print(f"\n{passed} passed, {len(failed)} failed, {whole} skipped")
    # ctest's status also says what is no test's outcome; with nothing tried again it decides.
    sys.exit(1 if failed or (status and not again) else 0)


if __name__ == "__main__":
    main()
