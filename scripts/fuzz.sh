#!/usr/bin/env bash
# Builds every fuzz target with clang, ASan and UBSan, and runs each of them. Ends with an error
# when an input breaks a parser; libFuzzer then writes that input to a file.
# Usage: scripts/fuzz.sh [SECONDS | -runs=N] [target]...     default: 20 seconds each, all targets
# Targets that are links (compressors_decoder_FAMILY_fuzz) share one program; without a target named,
# each of them gets a third of the seconds and the program as a whole none. Prints the inputs per second
# of every target.
# With -runs the targets are built, in a folder of their own, for twice the inputs per second.
# FUZZ_MAX_LEN: the longest input in bytes, 4096 unless set.
# Exit status 77 where there is no clang with its fuzzer.
set -euo pipefail
cd "$(dirname "$0")/.."
limit=${1:-20}
shift || true
share=$limit
build=build/fuzz
millions=OFF
more=()
case $limit in
  -runs=*)
    build=build/fuzz-millions
    millions=ON
    more=(-entropic=0 -reduce_inputs=0)
    ;;
  *)
    share=-max_total_time=$(((limit + 2) / 3))
    limit=-max_total_time=$limit
    ;;
esac
clang=$(command -v clang++-14 || command -v clang++ || true)
if [ -z "$clang" ] || ! echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, long) { return 0; }' |
  "$clang" -x c++ -fsanitize=fuzzer,address - -o /dev/null 2>/dev/null; then
  echo "skipped: no clang with libFuzzer; apt-get install clang-14 libclang-rt-14-dev"
  exit 77
fi

# The tests that run beside it come first, but not by so much that it waits for them all (nice).
mkdir -p "$build"
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-g1 -DCMAKE_C_COMPILER="${clang/++/}" \
  -DCMAKE_CXX_COMPILER="$clang" -DLONGHAUL_SANITIZER=asan -DLONGHAUL_FUZZERS=ON \
  -DLONGHAUL_FUZZ_MILLIONS=$millions -DLONGHAUL_TORCH=OFF >"$build/configure.log" 2>&1 ||
  { cat "$build/configure.log"; exit 1; }
# Links of families that are no more would stay: the program that they are made with is linked anew.
if [ -d "$build/fuzzers" ]; then
  find "$build/fuzzers" -type l -delete
  rm -f "$build/fuzzers/compressors_decoder_fuzz"
fi
nice -n 3 cmake --build "$build" --target fuzzers >"$build/build.log" 2>&1 ||
  { tail -n 60 "$build/build.log"; exit 1; }
cd "$build/fuzzers"
for fuzzer in *_fuzz; do
  own=$limit
  if [ $# -gt 0 ]; then
    [[ " $* " == *" $fuzzer "* ]] || continue
  elif [ -L "$fuzzer" ]; then
    own=$share
  elif [ "$fuzzer" = compressors_decoder_fuzz ]; then
    continue
  fi
  echo "== $fuzzer $own"
  "./$fuzzer" -max_len="${FUZZ_MAX_LEN:-4096}" -rss_limit_mb=1024 -print_final_stats=1 -verbosity=0 \
    "${more[@]}" "$own" 2>&1 |
    grep -v "^INFO: \|^Done 0 runs" || { echo "$fuzzer: found an input, see above"; exit 1; }
done
