#!/usr/bin/env python3
"""Every `pip install NAME` that a page, a message or a script shows is a path or a package that is meant: a name
that we do not own on the public index installs somebody else's program. Usage: pip_names.py REPO"""

import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(sys.argv[1])
# What is installed beside the package's own dependencies: by setup.sh, for recipes, for import, for tests and for the site.
OTHERS = {"numpy", "scipy", "tokenizers", "transformers", "gguf", "ml_dtypes", "accelerate", "lightning", "expecttest",
          "mkdocs-material", "mkdocstrings-python"}
WITH_VALUE = {"-r", "-c", "-w", "-i", "-t", "--python", "--index-url", "--extra-index-url", "--find-links", "--target"}


def project_dependencies():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    texts = project["dependencies"] + [d for extra in project["optional-dependencies"].values() for d in extra]
    return {re.match(r"[\w.-]+", text).group() for text in texts}, project["name"]


def names_in(text):
    """The names after each `pip install`: no options, paths or what a variable holds."""
    for found in re.finditer(r"pip[\"', ]+install\b((?:\\\n|(?!\"[,)])[^\n`;|&>)])*)", text):
        words = re.sub(r"\\\n", " ", found.group(1)).split()
        skip = False
        for word in words:
            word = word.strip("\"',:.") if not re.match(r"\.(,|\[|$)", word) else "."
            if skip or word.startswith("-"):
                skip = not skip and word in WITH_VALUE
            elif not word or word.startswith("#"):
                break
            elif not re.match(r"[./$%{<*+]|[A-Z]+$", word) and "/" not in word and not word.endswith(".whl"):
                name = re.match(r"[\w.-]+", word)
                yield name.group() if name else word


def main():
    known, ours = project_dependencies()
    known |= OTHERS
    assert not {ours, "longhaul"} & known, "nothing of this project is on the public index"
    files = subprocess.run(["git", "-C", ROOT, "ls-files"], check=True, capture_output=True, text=True).stdout.split("\n")
    wrong, seen = [], 0
    for name in filter(lambda f: re.search(r"(\.(md|py|sh|cc|h|toml|cmake|txt)|Makefile)$", f), files):
        if name.endswith("architecture/pip_names.py") or not (ROOT / name).exists():
            continue
        for package in names_in((ROOT / name).read_text(encoding="utf-8")):
            seen += 1
            if package not in known:
                wrong.append(f"{name}: pip install {package}: not a path, and no dependency that is meant; name a path, or "
                             "add the package to pip_names.py")
    assert seen > 8, f"only {seen} names found after 'pip install': is this the tree?"
    sys.exit("\n".join(wrong) or 0)


main()
