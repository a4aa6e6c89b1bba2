#!/usr/bin/env python3
"""Names every skipped test in a ctest LastTest.log with its reason, and counts them.

Two kinds: a GoogleTest case that called GTEST_SKIP (its message stands before "[  SKIPPED ]"), and
a whole test that exited with 77 (its last line beginning with "skipped:" is the reason).
Usage: skipped.py LastTest.log
"""
import re
import sys


def blocks(log):
    """(name, what it printed) of each test of the log."""
    name, printed = None, []
    for block in re.split(r"(?m)^-{58}$", log):
        head = re.search(r"(?m)^\d+/\d+ Testing: (\S+)", block)
        if head:
            if name:
                yield name, "".join(printed)
            name, printed = head.group(1), []
        printed.append(block)
    if name:
        yield name, "".join(printed)


def skips(log):
    for name, block in blocks(log):
        if "[  SKIPPED ]" in block:
            case, reason = None, []
            for line in block.splitlines():
                run = re.match(r"\[ RUN      \] (\S+)", line)
                if run:
                    case, reason = run.group(1), []
                elif case and re.match(r"\[  SKIPPED \] ", line):
                    text = " ".join(r for r in reason if r)
                    yield f"{name}: {case}", text or "no reason given"
                    case = None
                elif case and re.match(r"\[       OK \]|\[  FAILED  \]", line):
                    case = None
                elif case and line.endswith(": Skipped"):
                    reason = []  # what stands before is the test's own output
                elif case:
                    reason.append(line.strip())
        whole = re.search(r"(?m)^skipped: (.*)$", block)
        if whole:
            yield name, whole.group(1)


def main():
    with open(sys.argv[1], errors="replace") as log:
        found = list(skips(log.read()))
    for name, reason in found:
        print(f"  {name}: {reason}")
    print(f"  {len(found)} skipped in all")


if __name__ == "__main__":
    main()
