#!/usr/bin/env bash
# Minutes of one GPU, in two calls or more: what bench/gpu_price.py says, into OUT. A later call goes on with the campaign.
#   scripts/gpu_price.sh OUT 570        then, at once:   scripts/gpu_price.sh OUT 130
# LONGHAUL_BUILT=FOLDER takes what scripts/gpu_pack.sh made elsewhere. DEVICE=cpu rehearses it with a small model.
# At the end OUT/gpu_price.tar.gz has all figures and the record, without weights and texts.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?usage: scripts/gpu_price.sh OUT SECONDS} seconds=${2:?usage: scripts/gpu_price.sh OUT SECONDS}
device=${DEVICE:-cuda}
python=${TORCH_PYTHON:-$PWD/.venv/bin/python}
built=$(realpath "${LONGHAUL_BUILT:-build}")
if [ -n "${LONGHAUL_BUILT:-}" ]; then  # its programs know where torch lay when they were built
  torch=$("$python" -c 'import torch; print(torch.__path__[0])')
  export LD_LIBRARY_PATH=$torch/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  PATH=$PATH:/sbin ldconfig -p | grep 'libucp\.so\.0' >/dev/null || LD_LIBRARY_PATH=$built/ucx:$LD_LIBRARY_PATH
fi
mkdir -p "$out"
if [ "$device" = cuda ]; then
  # Several runs at a time: their kernels run beside each other, and not in turns.
  if command -v nvidia-cuda-mps-control >/dev/null && (cd / && setsid nvidia-cuda-mps-control -d >/dev/null 2>&1 </dev/null); then
    echo "MPS: on" >"$out/mps.txt"
  else
    echo "MPS: not to be had here; runs take turns on the GPU" | tee "$out/mps.txt"
  fi
fi
status=0
"$python" bench/gpu_price.py "$built/longhaul" "$out" --seconds "$seconds" --device "$device" || status=$?
tar -C "$out" -czf "$out/gpu_price.tar.gz" --exclude=work --exclude=gpu_price.tar.gz .
exit "$status"
