#!/bin/sh
# Builds the decoder's fuzz target with clang, ASan and UBSan, and runs it.
#   tests/compressors/fuzz.sh [SECONDS | -runs=N]     default: 20 seconds
# Ends with an error when an input breaks a decoder; libFuzzer then writes that input to a file.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
limit=${1:-20}
case $limit in
  -runs=*) ;;
  *) limit=-max_total_time=$limit ;;
esac
cmake -S "$root" -B "$root/build/fuzz" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_C_COMPILER=clang-14 -DCMAKE_CXX_COMPILER=clang++-14 \
  -DLONGHAUL_SANITIZER=asan -DLONGHAUL_FUZZERS=ON -DLONGHAUL_TORCH=OFF >/dev/null
cmake --build "$root/build/fuzz" --target compressors_decoder_fuzz
exec "$root/build/fuzz/tests/compressors_decoder_fuzz" -max_len=4096 -rss_limit_mb=1024 \
  -print_final_stats=1 -verbosity=0 "$limit"
