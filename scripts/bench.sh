#!/usr/bin/env bash
# Builds and runs every benchmark; each prints ratios against a peer or limit of the same run.
# Usage: scripts/bench.sh [name-part]    Output also in build/bench/.
set -euo pipefail
cd "$(dirname "$0")/.."
part=${1:-}
scripts/build.sh longhaul_benchmarks -DLONGHAUL_BENCHMARKS=ON
mkdir -p build/bench
for bench in build/bench/*_bench; do
  [ -x "$bench" ] || continue
  case $bench in *"$part"*) ;; *) continue ;; esac
  echo "== $(basename "$bench")"
  arguments=()
  # The peer of the trainer is the same model in eager Python torch, in the same run.
  [ "$(basename "$bench")" = pp_group_bench ] &&
    arguments=(--python "${TORCH_PYTHON:-$PWD/.venv/bin/python}" --script bench/eager_gpt.py)
  "$bench" "${arguments[@]}" | tee "$bench.txt"
done
