#!/bin/bash
# Three namespaces stand in for three hosts, a group each, started by a torchrun of its own. Groups are killed, torchrun
# starts them anew alone, and they take the state through the swarm while the others train on: a giver and a joiner
# are killed in the transfer. `longhaul ingest` makes one record of all lives, with the bits of one process. Then the
# same on one host, whose workers reach each other over lo alone.
# Usage: groups_test.sh LONGHAUL PYTHON SOURCE_FOLDER. Exit status 77: skipped, and why.
set -eu
longhaul=$1 python=$2 here=$3/tests/workers
"$longhaul" net run --nodes 2 --rate 100mbit --rtt 4ms -- true >/dev/null 2>&1 ||
  { echo "skipped: no lab here ('longhaul doctor' says why)"; exit 77; }
"$longhaul" weights --help >/dev/null 2>&1 || { echo "skipped: this build has no swarm"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; tail -n 40 "$work"/*.log; exit 1; }
refused() {  # WORDS COMMAND...: it ends with 1 and one line that holds the words
  local words=$1; shift
  if "$@" >"$work/refused.log" 2>&1; then fail "accepted: $*"; fi
  [ "$(wc -l <"$work/refused.log")" = 1 ] || fail "more than a line: $*"
  grep -q -- "$words" "$work/refused.log" || fail "want '$words': $*"
}

"$longhaul" run "$here/groups.toml" --set net.transport=loopback --results "$work/alone" >"$work/one.log" 2>&1 ||
  fail "the run in one process"
mkdir "$work/temporary"
export PYTHONDONTWRITEBYTECODE=1 TMPDIR="$work/temporary"
compare() {  # FOLDER: of the events
  "$longhaul" ingest "$1/events" --results "$1/record" >"$work/ingest.log" 2>&1 || fail "ingest"
  "$python" "$here/groups_record.py" "$1/record" "$work/alone" >"$work/compare.log" 2>&1 || fail "the record"
  grep -q '^group 1, life 0: rank 2 on .* after step .*without a word' "$work/ingest.log" || fail "who was lost"
}

mkdir "$work/three" "$work/one"
"$longhaul" net run --nodes 3 --rate 200mbit --rtt 10ms -- \
  "$here/host.sh" "$longhaul" "$python" "$here/groups.toml" "$work/three" net0 a >"$work/torchrun.log" 2>&1 ||
  fail "three hosts ended with $?"
compare "$work/three"
# shellcheck disable=SC2016
"$longhaul" net run --nodes 2 --rate 200mbit --rtt 10ms --node b -- bash -c '
  for group in 0 1 2; do RANK=$group "$@" & hosts+=($!); done
  for host in "${hosts[@]}"; do wait "$host" || exit 1; done' bash \
  "$here/host.sh" "$longhaul" "$python" "$here/groups.toml" "$work/one" lo localhost >"$work/torchrun.log" 2>&1 ||
  fail "one host ended with $?"
compare "$work/one"

# Launchers that would not do.
spec=$here/groups.toml
as() { env RANK="$1" WORLD_SIZE="$2" MASTER_ADDR=localhost MASTER_PORT=29555 "${@:3}" --interface lo --events "$work/refused-$RANDOM"; }
refused 'every group needs a launcher' as 0 6 "$longhaul" worker "$spec"
refused 'need WORLD_SIZE=2 in the launcher of each group' \
  as 0 6 "$longhaul" worker "$spec" --group 0 --store a:29500
refused 'the spec has 3 groups' as 0 2 "$longhaul" worker "$spec" --group 3 --store a:29500
refused "'29500': want HOST:PORT" as 0 2 "$longhaul" worker "$spec" --group 0 --store 29500
refused 'train together or not at all' \
  as 0 2 "$longhaul" worker "$here/tiny.toml" --group 0 --store a:29500
echo "PASSED: three hosts and one, four kills each; $(cat "$work/compare.log")"
