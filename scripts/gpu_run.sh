#!/usr/bin/env bash
# On this machine's GPU: four stages as four processes behind shaped links, which must have the losses of
# the same run in one process. Needs a build against a CUDA torch.
set -euo pipefail
cd "$(dirname "$0")/.."
skip() { echo "skipped: a shaped run of four processes on one GPU: $*"; exit 0; }
command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1 || skip "no GPU here (nvidia-smi finds none)"
python=${TORCH_PYTHON:-.venv/bin/python}
"$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null ||
  skip "the torch of $python sees no GPU: set TORCH_PYTHON to one that does"
scripts/build.sh longhaul
scripts/build.sh longhaul-engine
status=0
tests/runs/models_on_links_test.sh build/longhaul "$python" experiments/specs/gpt-cuda.toml || status=$?
[ "$status" = 77 ] && skip "no lab of links here ('longhaul doctor' says why)"
exit "$status"
