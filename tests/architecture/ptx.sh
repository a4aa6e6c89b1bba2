#!/usr/bin/env bash
# Kernels that a build for one GPU makes run on newer ones: scripts/gpu_pack.sh's architectures and the
# build's own have PTX, and a list without PTX ends the configuration. Usage: ptx.sh ROOT
set -euo pipefail
cd "$1"
bad=0
takes() { cmake -DARCHITECTURES="$1" -P cmake/RequirePtx.cmake 2>&1; }
packed=$(grep -o 'CUDA_ARCHITECTURES:-[^}]*' scripts/gpu_pack.sh | cut -d- -f2-)
own=$(grep -oE 'set\(CMAKE_CUDA_ARCHITECTURES [^)]*' compressors/cuda/CMakeLists.txt | cut -d' ' -f2- | tr ' ' ';')
for list in "$packed" "$own" '80-real;90' 90-virtual; do
  [ -n "$list" ] && takes "$list" >/dev/null || { echo "ptx: '$list' is refused or empty; expected PTX in it"; bad=1; }
done
for list in 90-real '80-real;90-real' native; do
  if said=$(takes "$list") || [[ $said != *'has no PTX'* ]]; then echo "ptx: '$list' has no PTX and is taken"; bad=1; fi
done
exit "$bad"
