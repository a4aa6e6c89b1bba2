#!/bin/bash
# One rank of the test, as torchrun starts it. In its first start rank 1 kills its worker when its second
# checkpoint is there.
# Usage: rank.sh LONGHAUL SPEC FOLDER
longhaul=$1 spec=$2 folder=$3
worker() {
  exec "$longhaul" worker "$spec" --interface net0 --checkpoints "$folder/checkpoints" --events "$folder/events"
}
if [ "$RANK" != 1 ] || [ -e "$folder/killed" ]; then worker; fi
(worker) &
until grep -qs '"checkpoint","rank":1,"step":4}' "$folder"/events/rank-00001-*.jsonl; do
  kill -0 $! 2>/dev/null || { echo "rank 1 ended before it was to be killed"; exit 1; }
  sleep 0.02
done
touch "$folder/killed"
kill -9 $!
wait $!
