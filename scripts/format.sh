#!/usr/bin/env bash
# clang-format over every C++ file that git knows. Usage: scripts/format.sh check|fix
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/versions.env
command -v "$CLANG_FORMAT" >/dev/null ||
  { echo "format: $CLANG_FORMAT is missing: apt-get install $CLANG_FORMAT"; exit 1; }
mapfile -t files < <(git ls-files '*.cc' '*.h' '*.cu' '*.cuh')
case ${1:-} in
  fix) "$CLANG_FORMAT" -i "${files[@]}" ;;
  check) "$CLANG_FORMAT" --dry-run -Werror "${files[@]}" && echo "format: ${#files[@]} files are clean" ;;
  *) echo "usage: scripts/format.sh check|fix"; exit 2 ;;
esac
