#!/usr/bin/env bash
# Runs ctest in a build folder, then names every skipped test with its reason, then repeats ctest's
# own closing lines. A test that fails is tried once more, and ctest's list shows both tries: links
# and deadlines are measured in real time, and a neighbour on the machine can starve one. Those that
# passed only then are named.
# One more at a time than there are cores: many wait for deadlines. Those that measure run alone.
# Usage: scripts/run_tests.sh BUILD [ctest options]
set -uo pipefail
cd "$(dirname "$0")/.."
build=${1:?usage: scripts/run_tests.sh BUILD [ctest options]}
shift
log=$build/ctest-output.log
ctest --test-dir "$build" --output-on-failure --timeout 300 --repeat until-pass:2 -j $(($(nproc) + 1)) "$@" 2>&1 | tee "$log"
status=${PIPESTATUS[0]}

echo
echo "Skipped, with reasons:"
python3 scripts/skipped.py "$build/Testing/Temporary/LastTest.log"
echo
echo "Passed only when tried again:"
retried=$(sed -nE 's/^.*Test +#[0-9]+: ([^ ]+) \.*\*\*\*(.*[^ ]) +[0-9.]+ sec$/\1 (\2)/p' "$log" | grep -v "(Skipped" | sort -u |
  while read -r name how; do grep -qF -- " - $name (" "$log" || echo "  $name $how"; done)
echo "${retried:-  none}"
echo
sed -n '/^[0-9]*% tests passed/,$p' "$log"
exit "$status"
