#!/usr/bin/env bash
# Builds here what the GPU tests run and packs it into FOLDER, with the libraries that it needs beside it, for a
# machine with a GPU that has neither the packages nor a registry: carry FOLDER and a checkout there, and
#   LONGHAUL_BUILT=FOLDER TORCH_PYTHON=python3 scripts/cuda.sh test
#   LONGHAUL_BUILT=FOLDER TORCH_PYTHON=python3 scripts/gpu_run.sh test
# FOLDER/longhaul is the command. Needs nvcc, not a GPU. TORCH_PYTHON must name a Python and a torch of the same minor
# versions as there; a glibc that is not newer than the one there. GPUs: sm_90 and, by its PTX, newer
# ones; or CUDA_ARCHITECTURES, of which one must have PTX.
# Usage: TORCH_PYTHON=/path/to/python scripts/gpu_pack.sh FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:?usage: TORCH_PYTHON=/path/to/python scripts/gpu_pack.sh FOLDER}
PATH=$PATH:/usr/local/cuda/bin
command -v nvcc >/dev/null || { echo "gpu_pack: nvcc is missing: install the CUDA toolkit, 12.4 or later"; exit 1; }
build=build/pack
mkdir -p "$build"
# The old kind of path in the programs: it also holds for what their libraries need.
# shellcheck disable=SC2016
libraries='$ORIGIN/lib;$ORIGIN/../lib;$ORIGIN/../../lib'
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DLONGHAUL_CUDA=ON \
  -DTORCH_PYTHON="${TORCH_PYTHON:-$PWD/.venv/bin/python}" -DCMAKE_CUDA_ARCHITECTURES="${CUDA_ARCHITECTURES:-90}" \
  -DCMAKE_BUILD_RPATH="$libraries" -DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags \
  -DCMAKE_MODULE_LINKER_FLAGS=-Wl,--disable-new-dtags >"$build/configure.log" 2>&1 ||
  { cat "$build/configure.log"; exit 1; }
cmake --build "$build" --target longhaul_everything_but_tests longhaul_gpu_tests compressors_cuda_gpu_test cuda_codecs_bench

# What is in the program, not what was asked for.
if command -v cuobjdump >/dev/null; then
  [ -n "$(cuobjdump --list-ptx "$build/longhaul-engine")" ] ||
    { echo "gpu_pack: $build/longhaul-engine has no PTX, so that newer GPUs cannot run it; delete $build and build again"; exit 1; }
fi

rm -rf "${folder:?}"
mkdir -p "$folder"/{bench,lib,python,tests,ucx}
put() { strip -o "$folder/$1" "$build/$1"; }
for program in longhaul longhaul-engine longhaul-weights bench/cuda_codecs_bench \
  tests/{stage_hash,backend_work_test,compressors_cuda_gpu_test,pp_group_{device,engines_aten_stage,models_models_golden}_test}; do put "$program"; done
cp -rL "$build/python/longhaul" "$folder/python/"
rm -r "$folder/python/longhaul/bin"  # the command lies at the top
for module in "$folder"/python/longhaul/*.so; do strip "$module"; done
# All but the C library, the compiler's, and torch's with what it brings. UCX is opened by name, and by itself:
# two of its versions in one process do not go together.
libraries_of() {
  for file in "$@"; do ldd "$file" || true; done | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
    grep -vE '/(torch|nvidia)/|/lib(c|m|dl|rt|pthread|util|gcc_s|stdc\+\+|gomp|cuda)\.so|/libnvidia'
}
mapfile -t files < <(find "$folder" -type f \( -perm -u+x -o -name '*.so' \))
libraries_of "${files[@]}" | while read -r library; do cp -L "$library" "$folder/lib/"; done
outside=$(libraries_of "${files[@]}" | grep -v "^$(realpath "$folder")/" || true)
[ -z "$outside" ] || { echo "gpu_pack: what is packed would look for these on the other machine: $outside"; exit 1; }
ucx=$(pkg-config --variable=libdir ucx)/libucp.so.0
{ echo "$ucx"; libraries_of "$ucx"; } | while read -r library; do cp -L "$library" "$folder/ucx/"; done
du -sh "$folder"
