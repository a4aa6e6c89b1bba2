#!/usr/bin/env bash
# Installs what longhaul needs; safe to run again, quick when nothing is missing.
#   scripts/setup.sh [build|test]      test: also what only the tests use
# Environment: TORCH_PYTHON=/path/to/python uses the torch that interpreter has and downloads none.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/versions.env
purpose=${1:-build}

fail() { echo "setup: $*" >&2; exit 1; }

packages_of() { sed -e 's/#.*//' -e '/^\s*$/d' "$1"; }
is_installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }

command -v apt-get >/dev/null || fail "this is not Debian or Ubuntu (no apt-get): install the \
equivalents of scripts/packages.txt by hand, then 'make build'"

install_packages() {  # file, required|optional
  local missing=() name
  for name in $(packages_of "$1"); do is_installed "$name" || missing+=("$name"); done
  [ ${#missing[@]} -eq 0 ] && return 0
  local as_root=()
  if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
      as_root=(sudo)
    elif [ "$2" = optional ]; then
      echo "setup: not installed (no root, no password-less sudo): ${missing[*]}"; return 0
    else
      fail "packages are missing and this is neither root nor has sudo without a password. Run:
  sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}"
    fi
  fi
  echo "setup: installing ${missing[*]}"
  local log; log=$(mktemp)
  local get=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get)
  "${get[@]}" update -qq >"$log" 2>&1 || { cat "$log"; fail "'apt-get update' failed"; }
  if ! "${get[@]}" install -y --no-install-recommends "${missing[@]}" >"$log" 2>&1; then
    [ "$2" = optional ] || { tail -20 "$log"; fail "'apt-get install' failed (log above)"; }
    # One package that the distribution lacks must not cost us the others.
    for name in "${missing[@]}"; do
      "${get[@]}" install -y --no-install-recommends "$name" >"$log" 2>&1 ||
        echo "setup: $name is not to be had here; the tests that use it will say so and skip"
    done
  fi
  rm -f "$log"
}

install_packages scripts/packages.txt required
if [ "$purpose" = test ]; then install_packages scripts/packages-test.txt optional; fi

# What tests of `longhaul export` read back with, and SciPy, which tests of the estimators compute the
# same with; torch's own environment stays as it is, and is seen from there (see_torch below).
install_export_packages() {
  [ -x .venv-export/bin/python ] && return 0
  if python3 -m venv .venv-export >/dev/null 2>&1 && .venv-export/bin/python -m pip install --quiet \
      --no-compile pyarrow tensorboard wandb mlflow-skinny transformers scipy >/dev/null 2>&1; then return 0; fi
  rm -rf .venv-export
  echo "setup: the packages of \`longhaul export\` cannot be had here; its test will say so and skip"
}

# add_to_exports WHOSE PACKAGE...: into .venv-export what is not there yet; WHOSE tests skip without.
# The recipes' come after torch, which they want and must not bring along.
add_to_exports() {
  local whose=$1
  shift
  [ -x .venv-export/bin/python ] || return 0
  .venv-export/bin/python -c 'import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, sys.argv[1:])))' "$@" && return 0
  .venv-export/bin/python -m pip install --quiet --no-compile "$@" >/dev/null 2>&1 ||
    echo "setup: $* cannot be had here; $whose tests will say so and skip"
}

if [ "$purpose" = test ]; then
  install_export_packages
  add_to_exports "the importer's" gguf tokenizers  # one dequantises with them
  add_to_exports "torch's own" expecttest
fi

see_torch() {  # makes the torch of interpreter $1 visible from .venv-export, for transformers
  [ -x .venv-export/bin/python ] || return 0
  "$1" -c 'import importlib.util as u, os; print(os.path.dirname(os.path.dirname(u.find_spec("torch").origin)))' \
    >"$(.venv-export/bin/python -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/torch_of_the_build.pth"
}

torch_of() {  # prints the version of the torch that interpreter $1 has, without importing it
  "$1" -c 'import importlib.metadata as m; print(m.version("torch"))' 2>/dev/null
}

if [ -n "${TORCH_PYTHON:-}" ]; then
  version=$(torch_of "$TORCH_PYTHON") || fail "TORCH_PYTHON=$TORCH_PYTHON has no torch"
  case $version in
    2.11.*|2.12.*|2.13.*|2.14.*) echo "setup: torch $version of $TORCH_PYTHON" ;;
    *) fail "torch $version of $TORCH_PYTHON: supported are 2.11 to 2.14" ;;
  esac
  "$TORCH_PYTHON" -c 'import matplotlib, pandas, scipy' 2>/dev/null || echo "setup: $TORCH_PYTHON lacks one of \
matplotlib, pandas, scipy: experiments run, and reading commands say what to install"
  see_torch "$TORCH_PYTHON"
  if [ "$purpose" = test ]; then add_to_exports "the recipes'" accelerate lightning; fi
  exit 0
fi

stamp=.venv/longhaul-versions.env
if ! cmp -s scripts/versions.env "$stamp"; then
  [ -x .venv/bin/python ] || python3 -m venv .venv ||
    fail "'python3 -m venv .venv' failed: is the venv module of $(command -v python3) there?"
  # pip's own settings (index, proxy, find-links) apply; docs/install.md says how to get the small
  # CPU build of torch.
  # --no-compile: Python compiles what it imports, which is far less than all of torch.
  .venv/bin/python -m pip install --quiet --no-compile "torch==$TORCH_VERSION" "numpy==$NUMPY_VERSION" \
    "matplotlib==$MATPLOTLIB_VERSION" "scipy==$SCIPY_VERSION" "pandas==$PANDAS_VERSION" ||
    fail "pip could not install torch $TORCH_VERSION and
scipy, pandas and matplotlib into .venv; or name a Python that has torch: make TORCH_PYTHON=..."
  cp scripts/versions.env "$stamp"
fi
see_torch .venv/bin/python
if [ "$purpose" = test ]; then add_to_exports "the recipes'" accelerate lightning; fi
echo "setup: torch $(torch_of .venv/bin/python) in .venv; nothing is missing"
