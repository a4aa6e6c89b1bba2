"""What ends an import: one line that says what was tried, what was seen and what to do."""

from longhaul.refusal import Refused, need  # noqa: F401: the words of every file here

LFS = b"version https://git-lfs.github.com/spec/"


def check_fetched(path):
    """Refuses what Git left in the place of a file that it did not fetch."""
    with open(path, "rb") as file:
        if file.read(len(LFS)) == LFS:
            raise Refused(f"{path}: a Git LFS pointer, not the file itself: fetch it with `git lfs pull`")
