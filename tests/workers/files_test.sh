#!/usr/bin/env bash
# Two ranks whose hosts have a file of one name: with the same content they train and the record has its hash; with
# another they say which, with both hashes, when they meet. Usage: files_test.sh LONGHAUL REPO. 77: no namespaces here.
set -euo pipefail
longhaul=$1 repo=$2
unshare -m true 2>/dev/null || { echo "skipped: no mount namespaces for this user"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for name in one other; do
  for i in $(seq 3000); do echo "$name $i and $((i * 7919))"; done > "$name.txt"
done
cp one.txt data.txt
sed -e 's/transport = "loopback"/transport = "ucx"/' -e "s|source = \"headers\"|source = \"text:$folder/data.txt\"|" \
  "$repo/tests/experiments/command/tiny.toml" > spec.toml
export MASTER_ADDR=127.0.0.1 WORLD_SIZE=2 LONGHAUL_INTERFACE=lo
fail() { echo "$1"; tail -n 3 rank0 rank1; exit 1; }

# start EVENTS FILE: rank 1 sees FILE in the place of data.txt.
start() {
  MASTER_PORT=$((20000 + RANDOM % 10000))
  export MASTER_PORT
  RANK=0 timeout 100 "$longhaul" worker spec.toml --events "$1" > rank0 2>&1 &
  local first=$!
  status=0
  RANK=1 unshare -m bash -c 'mount --bind "$0" data.txt && exec timeout 100 "$1" worker spec.toml --events "$2"' \
    "$2" "$longhaul" "$1" > rank1 2>&1 || status=$?
  wait "$first" || true
}

start same "$folder/one.txt"
[ "$status" = 0 ] || fail "the same content was refused"
"$longhaul" ingest same --results record > ingested || fail "no record: $(cat ingested)"
"$longhaul" report record > /dev/null
one=$(sha256sum one.txt | cut -c1-64) other=$(sha256sum other.txt | cut -c1-64)
grep -q "$one" record/report/tables/run_facts.csv || fail "the record lacks the hash $one"

start differ "$folder/other.txt"
[ "$status" != 0 ] || fail "another content was not refused"
grep -q "data.source (text:$folder/data.txt): SHA-256 ${one:0:15} at rank 0, ${other:0:15} here" rank1 ||
  fail "the refusal lacks a hash"
echo "as it should be"
