#!/bin/bash
# Two namespaces stand in for two hosts: torchrun in each starts `longhaul worker`, one worker is killed,
# torchrun starts all of them again, and `longhaul ingest` makes one whole record of it, whose losses,
# parameters and bytes are those of a run in one process. Then wrong folders, each refused in one line.
# Usage: torchrun_test.sh LONGHAUL PYTHON SOURCE_FOLDER. Exit status 77: skipped, and why.
set -eu
longhaul=$1 python=$2 here=$3/tests/workers
"$longhaul" net run --nodes 2 --rate 100mbit --rtt 4ms -- true >/dev/null 2>&1 ||
  { echo "skipped: no lab here ('longhaul doctor' says why)"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; tail -n 40 "$work"/*.log; exit 1; }
refused() {  # WORDS COMMAND...: it ends with 1 and one line that holds the words
  local words=$1; shift
  if "$@" >"$work/refused.log" 2>&1; then fail "accepted: $*"; fi
  [ "$(wc -l <"$work/refused.log")" = 1 ] || fail "more than a line: $*"
  grep -q -- "$words" "$work/refused.log" || fail "want '$words': $*"
}

PYTHONDONTWRITEBYTECODE=1 TMPDIR="$work" "$longhaul" net run --nodes 2 --rate 200mbit --rtt 10ms -- "$python" -m torch.distributed.run \
  --nnodes=2 --nproc-per-node=1 --rdzv-backend=c10d --rdzv-endpoint=a:29400 --rdzv-id=test \
  --max-restarts=3 --monitor-interval=0.1 --no-python \
  "$here/rank.sh" "$longhaul" "$here/tiny.toml" "$work" >"$work/torchrun.log" 2>&1 ||
  fail "torchrun ended with $?"
[ -e "$work/killed" ] || fail "nothing was killed"

# The record says what happened, and a second look adds nothing.
"$longhaul" ingest "$work/events" --results "$work/record" >"$work/ingest.log" 2>&1 || fail "ingest"
grep -q '^start 1 of 2: .*rank 1 on .* after step .*without a word' "$work/ingest.log" ||
  fail "the killed rank is not named"
"$longhaul" ingest "$work/events" --results "$work/record" >"$work/again.log" 2>&1 || fail "ingest again"
grep -q 'are in the record as run 1 (ok)' "$work/again.log" || fail "a second look"
"$longhaul" run "$here/tiny.toml" --set net.transport=loopback --set checkpoint.every_steps=0 \
  --results "$work/record" >"$work/one.log" 2>&1 || fail "the run in one process"
"$longhaul" compare "$work/record" 1 2 >"$work/compare.log" 2>&1 || fail "not the bits of one process"

# Wrong folders.
refused 'no \*.jsonl' "$longhaul" ingest "$work" --results "$work/other"
refused 'No such file' "$longhaul" ingest "$work/nowhere" --results "$work/other"
cp -r "$work/events" "$work/half"
rm "$work"/half/rank-00001-*.jsonl
refused 'the events of rank 1 are not here' "$longhaul" ingest "$work/half" --results "$work/other"
cp -r "$work/events" "$work/damaged"
for file in "$work"/damaged/rank-00000-*.jsonl; do sed -i "3s/.*/not json/" "$file"; done
refused ':3: not an event' "$longhaul" ingest "$work/damaged" --results "$work/other"
for file in "$work"/damaged/rank-00000-*.jsonl; do sed -i '3s/.*/{"event":"step","step":"x"}/' "$file"; done
refused ':3: .*type' "$longhaul" ingest "$work/damaged" --results "$work/other"
rm "$work"/damaged/*.jsonl && mkfifo "$work/damaged/rank-00000-aaaaaa.jsonl"
refused 'no regular file' "$longhaul" ingest "$work/damaged" --results "$work/other"
rm "$work"/damaged/*.jsonl && truncate -s 8M "$work/damaged/rank-00000-aaaaaa.jsonl"
refused 'a line of more than' "$longhaul" ingest "$work/damaged" --results "$work/other"
[ ! -e "$work/other" ] || fail "a refused folder left a record"
cp -r "$work/events" "$work/foreign"
sed -i 's/^seed = .*/seed = 4/' "$work/foreign/spec.toml"
refused "another run's spec" env RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=29555 \
  "$longhaul" worker "$here/tiny.toml" --interface lo --events "$work/foreign"
exec 9<"$(ls "$work"/events/rank-00000-*.jsonl | head -n 1)"
flock -x 9
refused 'rank 0 still runs' "$longhaul" ingest "$work/events" --results "$work/fresh"
exec 9<&-
echo "PASSED: two hosts, one kill, $(grep -c . "$work/ingest.log") lines of ingest, bits of one process"
