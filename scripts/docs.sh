#!/usr/bin/env bash
# Builds the documentation as a site in build/docs, with --strict: a broken link, anchor or page outside of mkdocs.yml fails.
# Installs MkDocs into build/docs-venv; the build itself needs no network.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/versions.env
venv=build/docs-venv
if ! cmp -s scripts/versions.env "$venv/versions.env"; then
  python3 -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet "mkdocs-material==$MKDOCS_MATERIAL_VERSION" \
    "mkdocstrings-python==$MKDOCSTRINGS_PYTHON_VERSION" ||
    { echo "docs: pip could not install mkdocs-material $MKDOCS_MATERIAL_VERSION and mkdocstrings-python \
$MKDOCSTRINGS_PYTHON_VERSION into $venv: see pip's settings (index, proxy) in docs/install.md"; exit 1; }
  cp scripts/versions.env "$venv/versions.env"
fi
PYTHONPATH=scripts NO_MKDOCS_2_WARNING=1 "$venv/bin/mkdocs" build --strict --quiet
echo "docs: build/docs/README.html"
