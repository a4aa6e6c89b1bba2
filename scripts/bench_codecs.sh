#!/usr/bin/env bash
# Measures the codecs against this run's own memory bandwidth and against other implementations, and
# judges the bars. Usage: scripts/bench_codecs.sh [--quick]    Results: build/bench/codecs.{txt,json}
# The other implementations come from the package index into build/bench/venv, nowhere else; one that
# cannot be had is named in the table with the reason.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/versions.env
rounds=9
[ "${1:-}" = --quick ] && rounds=3
out=$PWD/build/bench
mkdir -p "$out"
scripts/build.sh codecs_bench -DLONGHAUL_BENCHMARKS=ON

# Packages: the torch of .venv (or TORCH_PYTHON) is seen through a .pth file, not installed again.
base=${TORCH_PYTHON:-$PWD/.venv/bin/python}
venv=$out/venv
: >"$out/missing.txt"
if [ ! -x "$venv/bin/python" ]; then
  "$base" -m venv "$venv"
  "$base" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])' \
    >"$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/torch.pth"
fi
for peer in "torchao==$TORCHAO_VERSION" "bitsandbytes==$BITSANDBYTES_VERSION" \
            "fbgemm-gpu-cpu==$FBGEMM_VERSION"; do
  "$venv/bin/python" -m pip show --quiet "${peer%%==*}" 2>/dev/null ||
    "$venv/bin/python" -m pip install --quiet --no-deps --no-compile "$peer" >"$out/pip.log" 2>&1 ||
    echo "${peer%%==*}: pip cannot install $peer: $(tail -1 "$out/pip.log")" >>"$out/missing.txt"
done

# ggml's C: llama-cpp-python's source distribution vendors it. Only its row functions are compiled.
ggml=$out/libggml_rows.so
if [ ! -e "$ggml" ]; then
  rm -rf "$out/ggml" && mkdir -p "$out/ggml"
  if "$base" -m pip download --quiet --no-deps --no-binary llama-cpp-python -d "$out/ggml" \
       "llama-cpp-python==$LLAMA_CPP_VERSION" >"$out/pip.log" 2>&1; then
    tar -xzf "$out"/ggml/*.tar.gz -C "$out/ggml" --strip-components=1 --wildcards '*/vendor/llama.cpp/ggml/*'
    src=$out/ggml/vendor/llama.cpp/ggml
    # Tables that ggml's start-up code fills, which is not compiled here.
    cat >"$out/ggml/tables.c" <<'TABLES'
#include <immintrin.h>
#include <math.h>
float ggml_table_f32_f16[1 << 16], ggml_table_f32_e8m0_half[1 << 8];
float ggml_table_f32_ue4m3[1 << 8];  // of a format that is not measured
__attribute__((constructor)) static void fill(void) {
  for (int i = 0; i < 1 << 16; ++i) ggml_table_f32_f16[i] = _cvtsh_ss((unsigned short)i);
  for (int i = 0; i < 1 << 8; ++i) ggml_table_f32_e8m0_half[i] = ldexpf(1, i - 128);
}
TABLES
    cc -shared -fPIC -O3 -march=native -DNDEBUG -DGGML_VERSION='""' -DGGML_COMMIT='""' \
       -I"$src/include" -I"$src/src" -I"$src/src/ggml-cpu" -o "$ggml" "$src/src/ggml-quants.c" \
       "$src/src/ggml-cpu/quants.c" "$src/src/ggml-cpu/arch/x86/quants.c" "$out/ggml/tables.c" -lm >"$out/ggml.log" 2>&1 ||
      echo "ggml: its C does not compile: $(grep -m1 error "$out/ggml.log")" >>"$out/missing.txt"
    rm -rf "$out/ggml"
  else
    echo "ggml: pip cannot download llama-cpp-python $LLAMA_CPP_VERSION: $(tail -1 "$out/pip.log")" \
      >>"$out/missing.txt"
  fi
fi

# Ours before and after the peers in Python: of two figures the lower one is compared with theirs.
compared='int4-b64 int8-b64 q8_0 minmax4-b64 minmax8-b64 topk-64of4096+none sparseloco'
"$out/codecs_bench" --rounds "$rounds" --ggml "$ggml" --json "$out/codecs_native.json"
"$venv/bin/python" bench/codec_peers.py --rounds "$rounds" --missing "$out/missing.txt" \
  --native "$out/codecs_native.json" --reading "$out/libcodec_reading.so" --json "$out/codecs_peers.json"
"$out/codecs_bench" --rounds "$rounds" --only "$compared" --json "$out/codecs_again.json" >/dev/null
"$venv/bin/python" bench/codecs_table.py "$out" | tee "$out/codecs.txt"
