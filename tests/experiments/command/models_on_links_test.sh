#!/usr/bin/env bash
# Specs of models, each run in one process and as processes behind shaped links: equal losses, step by step.
# Usage: models_on_links_test.sh LONGHAUL PYTHON SPEC... [-- --set a.b=c ...]    Exit status 77: skipped, and why.
set -euo pipefail
longhaul=$1 python=$2
shift 2
specs=() sets=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do specs+=("$1"); shift; done
[ $# -gt 0 ] && shift
sets=("$@")
"$longhaul" net run --nodes 2 --rate 100mbit --rtt 4ms -- true >/dev/null 2>&1 ||
  { echo "skipped: no lab here ('longhaul doctor' says why)"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mesh() {  # SPEC FILE: 20 ms between all its ranks; no rate, which would be probed for seconds a path
  "$python" - "$1" "$2" <<'PY'
import sys, tomllib
spec = tomllib.load(open(sys.argv[1], "rb"))
names = [f"n{i}" for i in range(spec["schedule"]["stages"] * spec.get("outer", {}).get("groups", 1))]
with open(sys.argv[2] + ".csv", "w") as csv:
    csv.write("," + ",".join(names) + "\n")
    for a in names:
        csv.write(",".join([a] + ["0" if a == b else "20" for b in names]) + "\n")
with open(sys.argv[2], "w") as mesh:
    mesh.writelines(f'[[node]]\nname = "{name}"\n' for name in names)
    mesh.write('[matrix]\ncsv = "mesh.toml.csv"\n')
PY
}

losses() {  # FOLDER: step, group and loss of each step, exactly
  "$python" - "$1" <<'PY'
import sqlite3, sys
(record,) = [sys.argv[1] + "/longhaul.sqlite"]
rows = sqlite3.connect(record).execute(
    "SELECT step, group_index, loss_nat FROM steps WHERE loss_nat IS NOT NULL ORDER BY step, group_index")
print("\n".join(" ".join(map(repr, row)) for row in rows))
PY
}

for spec in "${specs[@]}"; do
  name=$(basename "$spec" .toml)
  mesh "$spec" "$work/mesh.toml"
  for transport in loopback ucx; do
    "$longhaul" run "$spec" --results "$work/$name.$transport" --set net.transport=$transport \
      --set net.profile="$work/mesh.toml" --set net.out_of_bounds=flag "${sets[@]}" >"$work/log" 2>&1 ||
      grep -q "trained to the end" "$work/log" ||  # of late links: a busy machine's times are no evidence
      { echo "FAILED: $name over $transport"; tail -20 "$work/log"; exit 1; }
    losses "$work/$name.$transport" >"$work/$name.$transport.losses"
  done
  [ -s "$work/$name.loopback.losses" ] || { echo "FAILED: $name has no losses"; exit 1; }
  diff "$work/$name.loopback.losses" "$work/$name.ucx.losses" ||
    { echo "FAILED: $name: other losses behind links"; exit 1; }
  echo "$name: $(wc -l <"$work/$name.ucx.losses") losses equal, the last $(tail -1 "$work/$name.ucx.losses")"
done
