#!/usr/bin/env bash
# Builds the codecs' GPU kernels, their test and their benchmark in build/cuda, and compiles what the
# plugin has beside them for a GPU; `test` also runs test and benchmark on this machine's GPU. The
# benchmark's table is also in build/cuda/bench/.
# Usage: scripts/cuda.sh build|test
# LONGHAUL_BUILT=FOLDER takes what scripts/gpu_pack.sh made elsewhere, and builds nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/local/cuda/bin
built=${LONGHAUL_BUILT:-build/cuda}
if [ -z "${LONGHAUL_BUILT:-}" ]; then
  command -v nvcc >/dev/null || { echo "cuda: nvcc is missing: install the CUDA toolkit, 12.4 or later"; exit 1; }
  mkdir -p build/cuda
  cmake -S . -B build/cuda -G Ninja -DCMAKE_BUILD_TYPE=Release -DLONGHAUL_TORCH=OFF -DLONGHAUL_CUDA=ON \
    >build/cuda/configure.log 2>&1 || { cat build/cuda/configure.log; exit 1; }
  cmake --build build/cuda --target compressors_cuda_host_test compressors_cuda_gpu_test cuda_codecs_bench \
    longhaul_plugin_cuda
  # The adapter's part, which needs torch's headers and no more of it.
  torch_python=${TORCH_PYTHON:-$PWD/.venv/bin/python}
  if torch=$("$torch_python" -c 'import torch; print(torch.__path__[0])' 2>/dev/null); then
    "${CXX:-c++}" -std=c++20 -fsyntax-only -Wall -Wextra -Werror -I. -isystem "$torch/include" \
      plugin/backend/device_coders_cuda.cc
    echo "cuda: plugin/backend/device_coders_cuda.cc compiles against the torch of $torch_python"
  else
    echo "cuda: skipped: plugin/backend/device_coders_cuda.cc: no torch in $torch_python"
  fi
fi
[ "${1:-}" = build ] && exit 0
if [ -n "${LONGHAUL_BUILT:-}" ]; then
  "$built/tests/compressors_cuda_gpu_test" --gtest_brief=1
else
  ctest --test-dir build/cuda --output-on-failure -R '^compressors_cuda_'
  python3 scripts/skipped.py build/cuda/Testing/Temporary/LastTest.log
fi
status=0
"$built"/bench/cuda_codecs_bench --check | tee "$built"/bench/cuda_codecs_bench.txt || status=$?
[ "$status" = 77 ] && status=0
# Beside it what torch makes of the same work, where a torch sees the GPU.
if peer_python=$(command -v "${TORCH_PYTHON:-python3}") && "$peer_python" -c 'import torch' 2>/dev/null; then
  "$peer_python" bench/cuda_peers.py | tee "$built"/bench/cuda_peers.txt || true
fi
exit "$status"
