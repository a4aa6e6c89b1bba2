#!/usr/bin/env bash
# Every link suite in its long form: tap natively, the kernel's netem natively where it has
# sch_netem, and netem inside the User Mode Linux guest. Each measurement is a line with nominal,
# measured, bounds and verdict.
# Usage: run_links.sh FOLDER_OF_TESTS     (make test-links)
# Exit status: 0 when no suite failed.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tests=$(cd "${1:?usage: run_links.sh FOLDER_OF_TESTS}" && pwd)
export LONGHAUL_LINKS=long
log=$(mktemp)
trap 'rm -f "$log"' EXIT
summary=()
failed=0

suite() {  # where name command...
  local where=$1 name=$2 start=$SECONDS status verdict
  shift 2
  echo "== $name, $where"
  "$@" 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  case $status in
    0) verdict=passed ;;
    77) verdict=skipped ;;
    *) verdict=FAILED failed=1 ;;
  esac
  summary+=("$(printf '%-12s %-16s %-8s %4d s  %3d results in bounds, %d attempts out, %d tests skipped' "$name" \
    "$where" "$verdict" $((SECONDS - start)) "$(grep -c ' ok$' "$log")" "$(grep -c ' OUT$' "$log")" \
    "$(sed -n 's/^\[  SKIPPED \] \([0-9]*\) test.*/\1/p' "$log" | head -n 1 | grep . || echo 0)")")
}

for name in acceptance burst aqm site scale faults; do
  program=$tests/netem_${name}_test
  suite native "$name" "$program"
  suite guest "$name" "$here/guest/run_guest.sh" env LONGHAUL_LINKS=long "$program" '--gtest_filter=*netem*'
done
echo
printf '%s\n' "${summary[@]}"
exit $failed
