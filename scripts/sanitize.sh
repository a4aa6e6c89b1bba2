#!/usr/bin/env bash
# Builds the torch-free part under ASan + UBSan and under TSan and runs its tests, the fuzzers'
# short smoke included. Usage: scripts/sanitize.sh [asan|tsan]...
set -euo pipefail
cd "$(dirname "$0")/.."
for preset in "${@:-asan tsan}"; do
  for name in $preset; do
    mkdir -p "build/$name"
    cmake --preset "$name" >"build/$name/configure.log" 2>&1 ||
      { cat "build/$name/configure.log"; exit 1; }
    cmake --build "build/$name"
    export TSAN_OPTIONS="suppressions=$PWD/tests/tsan.supp second_deadlock_stack=1"
    scripts/run_tests.py "build/$name" -LE "guest|physical"
  done
done
