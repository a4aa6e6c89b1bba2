"""What ends an import: one line that says what was tried, what was seen and what to do."""

import importlib
import sys


class Refused(Exception):
    """One line for the user."""


def need(module, what):
    """The module, or one line that says what needs it and how it is installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise Refused(f"{what} needs the Python package {module}, which {sys.executable} cannot import "
                      f"({error}): {sys.executable} -m pip install {module}") from error


LFS = b"version https://git-lfs.github.com/spec/"


def check_fetched(path):
    """Refuses what Git left in the place of a file that it did not fetch."""
    with open(path, "rb") as file:
        if file.read(len(LFS)) == LFS:
            raise Refused(f"{path}: a Git LFS pointer, not the file itself: fetch it with `git lfs pull`")
