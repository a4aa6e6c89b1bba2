#!/bin/bash
# examples/slurm/array.sh on a real Slurm (farm.sh). A job that is told to end comes back and goes on; the
# merged tables are those of one machine.
# Usage: array_test.sh LONGHAUL SOURCE_FOLDER. Exit status 77: skipped, and why.
set -eu
longhaul=$1 source=$2
. "$source/tests/slurm/farm.sh"

spec=$source/tests/slurm/campaign.toml
runs=$("$longhaul" measure "$spec" --list | wc -l)
job=$(cd "$WORK" && sbatch --parsable --array="0-$((runs - 1))%2" --output="$WORK/job-%a.log" \
  "$source/examples/slurm/array.sh" "$spec" "$WORK/records")
# One that runs is told to end, as Slurm does before its time is over.
last=$((runs - 1))
eventually 120 test -e "$WORK/records/000$last/longhaul.sqlite" || fail "run $last does not start"
sleep 2
scancel --signal=TERM --batch "${job}_$last" || true
eventually 240 sh -c '[ -z "$(squeue -h -o %i)" ]' || fail "the array does not end"

"$longhaul" merge "$WORK/merged" "$WORK/records" || fail "merge"
tables() { "$longhaul" measure "$spec" --results "$1" --accept-unresolved --quiet | sed '/^record: /d'; }
tables "$WORK/merged" >"$WORK/merged.txt" || fail "tables of the merged record"
tables "$WORK/one" >"$WORK/one.txt" || fail "tables of one machine"
diff "$WORK/merged.txt" "$WORK/one.txt" || fail "the tables differ"
restarts=$(scontrol show job "${job}_$last" | sed -n 's/.*Restarts=\([0-9]*\).*/\1/p' | head -1)
[ "${restarts:-0}" -ge 1 ] || fail "run $last was not put back into the queue"
echo "PASSED: $runs runs as an array, run $last put back $restarts time(s), equal tables"
