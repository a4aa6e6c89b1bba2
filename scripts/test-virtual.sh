#!/usr/bin/env bash
# The lab's links and a run's schedules on a kernel whose time is virtual, in User Mode Linux guests:
# links against closed forms, twice, alike within 2 us; then the clock of simulated runs against
# the kernel's own TCP; then losses, bit by bit, in three places.
# Usage: scripts/test-virtual.sh FOLDER_OF_TESTS [all]     (make test-virtual)
set -euo pipefail
cd "$(dirname "$0")/.."
tests=$(cd "${1:?usage: test-virtual.sh FOLDER_OF_TESTS [all]}" && pwd)
scripts/virtual_kernel.sh >/dev/null
said=$(mktemp -d)
trap 'rm -rf "$said"' EXIT

pids=()
for turn in first second; do
  tests/netem/guest/run_guest.sh --virtual env LONGHAUL_LINKS=long "$tests/netem_virtual_time_test" >"$said/$turn" 2>&1 &
  pids+=($!)
done
status=0
for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
grep '^  ' "$said/first" || true
[ "$status" = 0 ] || { cat "$said/first" "$said/second"; exit "$status"; }
for turn in first second; do grep '^  ' "$said/$turn" >"$said/$turn.figures"; done
# A reading of the clock is 256 ns, and a process that another one wakes makes a few more or less: up to
# five were seen, in messages of many segments. Eight are allowed; figures of losses are whole numbers.
paste -d '|' "$said/first.figures" "$said/second.figures" | awk -F '|' '
  { split($1, a, "measured "); split($2, b, "measured "); d = a[2] - b[2]
    if (d > 2.1e-6 || d < -2.1e-6 || (!(a[2]) && $1 != $2)) { print; bad = 1 } } END { exit bad }' ||
  { echo "test-virtual: two runs differ by more than eight readings of the clock (2.05 us)"; exit 1; }
echo "test-virtual: $(wc -l <"$said/first.figures") figures within their bounds, the same in two runs"
python3 bench/virtual_grid.py --tests "$tests" --check ${2:+--grid "$2"}
# The same spec trained on the simulated clock, over tap and over the guest's netem, in time that is real.
python3 bench/clock_pairs.py --tests "$tests" --longhaul "$tests/../longhaul" --guest --losses --steps 6 \
  --profiles continental-us --schedules 1f1b || { status=$?; [ "$status" = 77 ] || exit "$status"; }
