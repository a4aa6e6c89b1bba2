#!/usr/bin/env bash
# The backend beside gloo, in pairs of one run: every operation over lo with 2 and with 4 ranks, then a boundary of 16 MiB
# over each profile's link. Output also in build/bench/backend.md. Usage: scripts/bench_backend.sh [PROFILE]...
set -euo pipefail
cd "$(dirname "$0")/.."
python=${TORCH_PYTHON:-$PWD/.venv/bin/python}
export PYTHONPATH=$PWD/build/python
profiles=("$@")
[ $# -gt 0 ] || profiles=(colocated regional same-country continental-us transatlantic simulator-default transpacific global worst-case)
mkdir -p build/bench
{
  "$python" bench/backend_pairs.py
  "$python" bench/backend_pairs.py --ranks 4 --rounds 7
  for profile in "${profiles[@]}"; do
    printf '\n%s\n' "$profile"
    build/longhaul launch -n 2 --profile "$profile" --probe quick --out-of-bounds flag --raw \
      --results build/bench/backend-results -- "$python" bench/backend_pairs.py boundary
  done
} | tee build/bench/backend.md
