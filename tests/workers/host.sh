#!/bin/bash
# One host of the test: torchrun starts the workers of one group, and starts them anew when one is lost. The first
# host serves the run's store, too.
# Usage: host.sh LONGHAUL PYTHON SPEC FOLDER INTERFACE STOREHOST, with RANK: the group.
longhaul=$1 python=$2 spec=$3 folder=$4 interface=$5 store_host=$6 group=$RANK
if [ "$group" = 0 ]; then
  mkfifo "$folder/keys"
  "$longhaul" worker --serve-store 29500 - <"$folder/keys" &
  store=$!
  exec 8>"$folder/keys"  # the store ends with this shell
fi
"$python" -m torch.distributed.run --standalone --nproc-per-node=2 --max-restarts=3 --monitor-interval=0.1 --no-python \
  "$longhaul" worker "$spec" --group "$group" --store "$store_host:29500" --interface "$interface" --events "$folder/events"
status=$?
touch "$folder/ended-$group"
if [ "$group" = 0 ]; then
  until [ -e "$folder/ended-1" ] && [ -e "$folder/ended-2" ]; do
    kill -0 "$store" || exit 1
    sleep 0.1
  done
fi
exit "$status"
