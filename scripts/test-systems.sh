#!/usr/bin/env bash
# The long form of the tests of outer algorithms and boundary methods: each spec whole, as a user runs
# it; killed and resumed; and behind shaped links where this machine can. Prints a row for each.
# Usage: [SYSTEMS_LOG=file] scripts/test-systems.sh [FILTER, as GoogleTest has it]
set -uo pipefail
cd "$(dirname "$0")/.."
log=${SYSTEMS_LOG:-$(mktemp)}
[ -n "${SYSTEMS_LOG:-}" ] || trap 'rm -f "$log"' EXIT
export LONGHAUL_LONG_SYSTEMS=1
failed=0
for suite in outer boundary; do
  program=build/tests/experiments_command_${suite}_specs_test
  [ -x "$program" ] || { echo "test-systems: $program is not built: make test-systems"; exit 1; }
  "$program" --gtest_color=no --gtest_filter="${1:-*Specs.RunAndSendWhatIsPlanned/*}" >>"$log" 2>&1 || failed=1
done
[ $failed = 0 ] || grep -v '^|' "$log" | tail -200
echo "| spec | held-out loss, nat | s in one process | behind links | |"
echo "|---|---|---|---|---|"
grep '^| .* |$' "$log" || failed=1
exit $failed
