#!/usr/bin/env bash
# Configures and builds one target in build/. Usage: scripts/build.sh TARGET [cmake options]
set -euo pipefail
cd "$(dirname "$0")/.."
target=${1:?usage: scripts/build.sh TARGET [cmake options]}
shift
python=${TORCH_PYTHON:-$PWD/.venv/bin/python}
mkdir -p build
# Configure prints much that nobody reads; its log is shown when it fails.
cmake --preset release -DTORCH_PYTHON="$python" "$@" >build/configure.log 2>&1 ||
  { cat build/configure.log; echo "build: 'cmake --preset release' failed (log above)"; exit 1; }
cmake --build build --target "$target"
