#!/usr/bin/env bash
# On this machine's GPU, with the codecs' kernels in longhaul itself: tensors there cross as those of the
# host do; processes that share it have the gradients of one alone; four stages as four processes behind shaped links have the losses of the same
# run in one process; then bench/device_table.py. Needs a CUDA build of torch and nvcc.
# Usage: scripts/gpu_run.sh test|bench [cpu]     cpu: the same on the processor, to rehearse it
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:?usage: scripts/gpu_run.sh test|bench [cpu]}
device=${2:-cuda}
python=${TORCH_PYTHON:-$PWD/.venv/bin/python}
PATH=$PATH:/usr/local/cuda/bin

# Each line of what would run, with the reason.
lines=("tensors of a GPU through the backend" "one stage's gradients in four processes on one GPU"
  "a shaped run of four processes on one GPU" "the table of tokens per second")
[ "$what" = bench ] && lines=("${lines[3]}")
skip_all() { for line in "${lines[@]}"; do echo "skipped: $line: $*"; done; exit 0; }
options=()
if [ "$device" != cpu ]; then
  command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1 ||
    skip_all "no GPU here (nvidia-smi finds none)"
  "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null ||
    skip_all "the torch of $python sees no GPU: set TORCH_PYTHON to one that does"
  command -v nvcc >/dev/null || skip_all "nvcc is missing: install the CUDA toolkit, 12.4 or later"
  options=(-DLONGHAUL_CUDA=ON)  # stays in build/: tensors are coded where they lie from then on
fi

scripts/build.sh longhaul_everything_but_tests "${options[@]}"
failed=0
ended() {  # NAME STATUS
  [ "$2" = 0 ] || [ "$2" = 77 ] || { echo "FAILED: $1"; failed=1; }
}
if [ "$what" = test ]; then
  scripts/build.sh stage_hash
  scripts/build.sh backend_work_test
  build/tests/backend_work_test --gtest_filter='CudaTensors*' --gtest_brief=1 || ended "${lines[0]}" $?
  PYTHONPATH=build/python "$python" tests/backend/cuda_tensors.py || ended "${lines[0]}" $?
  "$python" tests/pp_group/shared_device.py build/tests/stage_hash "$device" || ended "${lines[1]}" $?
  tests/runs/models_on_links_test.sh build/longhaul "$python" experiments/specs/gpt-cuda.toml -- \
    --set train.device="$device" || ended "${lines[2]}" $?
fi
mkdir -p build/bench
"$python" bench/device_table.py build/longhaul --device "$device" | tee build/bench/device_table.txt ||
  ended "the table of tokens per second" $?
exit "$failed"
