#!/bin/bash
# examples/slurm/workers.sh on a real Slurm (farm.sh): two ranks, one of them killed, the job put back into
# the queue; `longhaul ingest` makes one whole record of both starts, with the bits of one process.
# Usage: workers_test.sh LONGHAUL SOURCE_FOLDER. Exit status 77: skipped, and why.
set -eu
longhaul=$1 source=$2
. "$source/tests/slurm/farm.sh"

# The ranks share the node: what goes to its own address goes over lo.
export LONGHAUL_INTERFACE=lo
spec=$WORK/long.toml  # long enough to be killed in the middle
sed 's/^steps = .*/steps = 400/; s/^every_steps = .*/every_steps = 20/' "$source/tests/workers/tiny.toml" >"$spec"
job=$(cd "$WORK" && sbatch --parsable --ntasks=2 --output="$WORK/job.log" \
  "$source/examples/slurm/workers.sh" "$spec" "$WORK/run")
eventually 120 sh -c "grep -qs '\"checkpoint\",\"rank\":1,\"step\":40}' $WORK/run/events/rank-00001-*.jsonl" ||
  fail "rank 1 writes no checkpoint"
pid=$(pgrep -f "worker $spec" | while read -r pid; do
  tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | grep -qx RANK=1 && echo "$pid" || true; done | head -n 1)
kill -9 "$pid" || fail "rank 1 has ended before it could be killed"
eventually 200 sh -c '[ -z "$(squeue -h -o %i)" ]' || fail "the job does not end"

"$longhaul" ingest "$WORK/run/events" --results "$WORK/record" >"$WORK/ingest.log" 2>&1 || fail "ingest"
grep -q '^start 1 of 2: .*rank 1 on .* after step' "$WORK/ingest.log" || fail "the killed rank is not named"
"$longhaul" run "$spec" --set net.transport=loopback --set checkpoint.every_steps=0 \
  --results "$WORK/record" >"$WORK/one.log" 2>&1 || fail "the run in one process"
"$longhaul" compare "$WORK/record" 1 2 >"$WORK/compare.log" 2>&1 || fail "not the bits of one process"
echo "PASSED: two starts of two ranks, bits of one process"
