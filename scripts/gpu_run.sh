#!/usr/bin/env bash
# On this machine's GPU, with the codecs' kernels in longhaul itself: tensors there cross as those of the
# host do; models have the gradients of PyTorch in double precision; processes that share it have the gradients
# of one alone; four stages as four processes behind shaped links have the losses of the same run in one process;
# then bench/device_table.py. Needs a CUDA build of torch and nvcc.
# Usage: scripts/gpu_run.sh test|bench [cpu]     cpu: the same on the processor, to rehearse it
# LONGHAUL_BUILT=FOLDER takes what scripts/gpu_pack.sh made elsewhere, and builds nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:?usage: scripts/gpu_run.sh test|bench [cpu]}
device=${2:-cuda}
python=${TORCH_PYTHON:-$PWD/.venv/bin/python}
built=$(realpath "${LONGHAUL_BUILT:-build}")
PATH=$PATH:/usr/local/cuda/bin
if [ -n "${LONGHAUL_BUILT:-}" ]; then  # its programs know where torch lay when they were built
  torch=$("$python" -c 'import torch; print(torch.__path__[0])')
  export LD_LIBRARY_PATH=$torch/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} LONGHAUL_GOLDEN_DIRECTORY=$PWD/tests/golden
  # UCX is the machine's own where it has one: other programs of the process may have opened it.
  PATH=$PATH:/sbin ldconfig -p | grep 'libucp\.so\.0' >/dev/null || LD_LIBRARY_PATH=$built/ucx:$LD_LIBRARY_PATH
fi

# Each line of what would run, with the reason.
lines=("tensors of a GPU through the backend" "models there against PyTorch in double precision"
  "one stage's gradients in four processes on one GPU" "a shaped run of four processes on one GPU" "the table of tokens per second")
[ "$what" = bench ] && lines=("${lines[4]}")
skip_all() { for line in "${lines[@]}"; do echo "skipped: $line: $*"; done; exit 0; }
options=()
if [ "$device" != cpu ]; then
  command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1 ||
    skip_all "no GPU here (nvidia-smi finds none)"
  "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null ||
    skip_all "the torch of $python sees no GPU: set TORCH_PYTHON to one that does"
  [ -n "${LONGHAUL_BUILT:-}" ] || command -v nvcc >/dev/null ||
    skip_all "nvcc is missing: install the CUDA toolkit, 12.4 or later"
  options=(-DLONGHAUL_CUDA=ON)  # stays in build/: tensors are coded where they lie from then on
fi

build() { [ -n "${LONGHAUL_BUILT:-}" ] || scripts/build.sh "$@"; }
build longhaul_everything_but_tests "${options[@]}"
failed=0
ended() {  # NAME STATUS
  [ "$2" = 0 ] || [ "$2" = 77 ] || { echo "FAILED: $1"; failed=1; }
}
if [ "$what" = test ]; then
  build longhaul_gpu_tests
  "$built"/tests/backend_work_test --gtest_filter='CudaTensors*' --gtest_brief=1 || ended "${lines[0]}" $?
  PYTHONPATH=$built/python "$python" tests/backend/cuda_tensors.py || ended "${lines[0]}" $?
  "$built/tests/pp_group_device_test" --gtest_brief=1 || ended "${lines[1]}" $?
  for test in engines_aten_stage models_models_golden; do
    for attention in math fused; do
      LONGHAUL_TEST_DEVICE=$device LONGHAUL_TEST_ATTENTION=$attention "$built/tests/pp_group_${test}_test" \
        --gtest_brief=1 || ended "${lines[1]}" $?
    done
  done
  "$python" tests/pp_group/shared_device.py "$built"/tests/stage_hash "$device" || ended "${lines[2]}" $?
  tests/experiments/command/models_on_links_test.sh "$built/longhaul" "$python" experiments/specs/gpt-cuda.toml -- \
    --set train.device="$device" || ended "${lines[3]}" $?
fi
mkdir -p "$built/bench"
"$python" bench/device_table.py "$built/longhaul" --device "$device" | tee "$built/bench/device_table.txt" ||
  ended "the table of tokens per second" $?
exit "$failed"
