"""Which split of a data set a file belongs to, by its name or its folder, as the Hugging Face hub and `datasets` write them."""

import hashlib
import os
import re

from .refusal import Refused

# What names a split, and the split that it is.
SPLITS = {"train": "train", "training": "train", "validation": "validation", "valid": "validation",
          "val": "validation", "dev": "validation", "test": "test", "testing": "test", "eval": "test",
          "evaluation": "test"}
IN_NAME = re.compile(rf"(?<![a-z])(?:{'|'.join(sorted(SPLITS, key=len, reverse=True))})(?![a-z]).*")
ENDINGS = re.compile(r"(?:\.(?:arrow|feather|parquet|jsonl|ndjson|json|csv|tsv|gz|snappy|zst))+$")
SHARD = re.compile(r"[-_.]\d+[-_.]of[-_.]\d+.*$|[-_.]?\d+$")


def split_of(path, root):
    """"train" for c4-train-00001-of-00008.arrow, "train_sft" for train_sft-00000-of-00001.parquet, "valid" for
    valid/7.parquet; "" where neither the name nor a folder below `root` says it."""
    named = IN_NAME.search(SHARD.sub("", ENDINGS.sub("", os.path.basename(path).lower())))
    if named:
        return SHARD.sub("", named.group())
    folders = os.path.relpath(os.path.dirname(os.path.abspath(path)), root).lower().split(os.sep)
    return next((folder for folder in reversed(folders) if folder in SPLITS), "")


def listed(groups):
    return ", ".join(f"{label or 'no split'} ({len(paths)} file{'s' * (len(paths) > 1)}, {os.path.basename(paths[0])})"
                     for label, paths in sorted(groups.items()))


def choose(paths, wanted, root):
    """The files of one split.

    Args:
        paths: The files found.
        wanted: The value of --split, or None.
        root: The folder that they were looked for in.

    Returns:
        Those files, and the split's name ("" where no name says one).

    Raises:
        Refused: There are several splits and none is wanted, or the wanted one is not there.
    """
    groups = {}
    for path in paths:
        groups.setdefault(split_of(path, root), []).append(path)
    if wanted is None:
        if len(groups) > 1:
            raise Refused(f"{root}: files of several splits: {listed(groups)}: choose one with --split NAME")
        return paths, next(iter(groups), "")
    label = wanted.lower()
    if label not in groups:
        same = [other for other in groups if SPLITS.get(label) and SPLITS.get(other) == SPLITS[label]]
        if len(same) != 1:
            raise Refused(f"--split {wanted}: {root} has {listed(groups)}")
        label = same[0]
    return groups[label], label


def distinct(paths):
    """The files without those that repeat one: links to it, and copies of equal bytes."""
    kept, real, sizes, digests = [], set(), {}, {}

    def digest_of(path):
        if path not in digests:
            with open(path, "rb") as file:
                digests[path] = hashlib.file_digest(file, "sha256").digest()
        return digests[path]

    for path in paths:
        target = os.path.realpath(path)
        same_size = sizes.setdefault(os.path.getsize(path), [])
        if target in real or any(digest_of(path) == digest_of(other) for other in same_size):
            continue
        real.add(target)
        same_size.append(path)
        kept.append(path)
    return kept
