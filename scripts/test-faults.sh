#!/usr/bin/env bash
# The long form of the tests of faults: each N times (20), over shaped links where this machine can.
# Prints a row for each: how often it passed, the slowest of its runs.
# Usage: [FAULTS_LOG=file] scripts/test-faults.sh [N]
set -uo pipefail
cd "$(dirname "$0")/.."
repeats=${1:-20}
log=${FAULTS_LOG:-$(mktemp)}
[ -n "${FAULTS_LOG:-}" ] || trap 'rm -f "$log"' EXIT
[ -s build/tests/fault_suites.txt ] || { echo "test-faults: the suites are not built: make test-faults"; exit 1; }
export LONGHAUL_LONG_FAULTS=1
for suite in $(cat build/tests/fault_suites.txt); do
  program=build/tests/$suite
  [ -x "$program" ] || { echo "test-faults: $program is not built: make test-faults"; exit 1; }
  "$program" --gtest_repeat="$repeats" --gtest_color=no >>"$log" 2>&1
done
python3 - "$log" "$repeats" <<'PY'
import re, sys
ended = {}
for line in open(sys.argv[1], errors="replace"):
    m = re.match(r"\[\s*(OK|FAILED|SKIPPED)\s*\] (\S+?),? .*\((\d+) ms\)", line)
    if m:
        ended.setdefault(m[2], []).append((m[1], int(m[3])))
bad = False
print(f"| test | passed of {sys.argv[2]} | slowest, s |\n|---|---|---|")
for name, runs in ended.items():
    passed = sum(how == "OK" for how, _ in runs)
    skipped = sum(how == "SKIPPED" for how, _ in runs)
    bad |= passed + skipped < len(runs)
    text = "skipped" if skipped == len(runs) else str(passed)
    print(f"| {name} | {text} | {max(ms for _, ms in runs) / 1000:.1f} |")
sys.exit(bad or not ended)
PY
