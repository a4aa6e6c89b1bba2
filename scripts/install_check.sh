#!/usr/bin/env bash
# `pip install .` as a user does it: from a clean clone of HEAD, into a bare environment, with no build tree to
# take from; then the command and a program of that package (tests/backend/installed_package.py). The
# clone is mounted in this tree's place and compiled in build/, so that a compiler's cache has all of it
# after `make build`: a minute or two instead of half an hour.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD python=${TORCH_PYTHON:-$PWD/.venv/bin/python}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
git clone --quiet . "$folder/clone"
mkdir "$folder/clone/.venv"
printf '[build_ext]\nbuild_temp = build\n' >"$folder/setup.cfg"
export DIST_EXTRA_CONFIG=$folder/setup.cfg
unset LONGHAUL_BUILD_DIR TORCH_PYTHON
apart=(unshare --mount)
if [ "$(id -u)" != 0 ]; then apart+=(--map-root-user); fi
if "${apart[@]}" true 2>/dev/null; then
  "${apart[@]}" bash -euc '
    if [ -d "$2/.venv" ]; then mount --bind "$2/.venv" "$1/.venv"; fi
    mount --rbind "$1" "$2"
    cd "$2"
    exec "$3" tests/backend/installed_package.py' inside "$folder/clone" "$root" "$python"
else
  echo "install_check: no mount namespaces here: compiled elsewhere, and so without a cache"
  cd "$folder/clone"
  "$python" tests/backend/installed_package.py
fi
