"""Which files a kind of text is of: patterns, and kinds that this machine has. Read as UTF-8, unpacked,
once each, in an order that their content alone fixes."""

import glob
import gzip
import hashlib
import os
import sysconfig
import zlib

from .refusal import Refused

# Of kinds that every machine has: parts of paths that are left out. Tests and tables are no programs, and torch's
# operators are one generated header two thousand times.
LEFT_OUT = {"python": ("/site-packages/", "/dist-packages/", "/test/", "/tests/", "/encodings/"),
            "headers": ("/ATen/ops/",), "docs": (), "man": ()}


def standard_library():
    return [sysconfig.get_paths()["stdlib"] + "/**/*.py"]


def headers():
    import importlib.util
    torch = importlib.util.find_spec("torch")
    places = [os.path.join(os.path.dirname(torch.origin), "include/**/*.h")] if torch and torch.origin else []
    return places + ["/usr/include/*.h", "/usr/include/*-linux-gnu/**/*.h", "/usr/include/linux/**/*.h"]


BUILT_IN = {  # a name alone on the command line: its patterns
    "python": standard_library,
    "headers": headers,
    "man": lambda: ["/usr/share/man/man*/*"],
    "docs": lambda: ["/usr/share/common-licenses/*"] + [
        f"/usr/share/doc/**/{name}{packed}"
        for name in ("copyright", "README*", "*.txt", "*.md", "*.rst") for packed in ("", ".gz")],
}
MOST_BYTES = 16 << 20  # of one file
LEAST_BYTES = 64


class Found:
    """`files`: [(sha256 of the text, path)] in the order of the hashes, which is a shuffled one: any part of
    them is a sample. `skipped`: {why: how many}."""

    def __init__(self):
        self.files, self.skipped = [], {}

    def skip(self, why):
        self.skipped[why] = self.skipped.get(why, 0) + 1


def paths_of(name, patterns):
    found = set()
    for pattern in patterns:
        for path in glob.iglob(os.path.expanduser(pattern), recursive=True, include_hidden=False) \
                if glob.has_magic(pattern) else [pattern]:
            if os.path.isfile(path):
                found.add(path)
            elif not glob.has_magic(pattern):
                raise Refused(f"{name}: {pattern}: no such file")
    if not found:
        raise Refused(f"{name}: no file matches {', '.join(patterns)}")
    return sorted(found)


def read(path):
    """The text, or None and why not."""
    if os.path.getsize(path) > MOST_BYTES:
        return None, f"above {MOST_BYTES >> 20} MiB"
    try:
        with open(path, "rb") as file:
            raw = file.read()
        if raw.startswith(b"\x1f\x8b"):
            raw = gzip.decompress(raw)
        text = raw.decode("utf-8")
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error):
        return None, "no UTF-8 text"
    except OSError as error:
        return None, error.strerror or "unreadable"
    if len(raw) < LEAST_BYTES:
        return None, f"below {LEAST_BYTES} bytes"
    if "\0" in text:
        return None, "no UTF-8 text"
    return text, ""


def gather(name, patterns):
    """The texts of a kind."""
    built_in = patterns is None
    if built_in:
        if name not in BUILT_IN:
            raise Refused(f"'{name}' is no kind that every machine has ({', '.join(BUILT_IN)}): say {name}=PATTERN")
        patterns = BUILT_IN[name]()
    found, seen, real = Found(), {}, set()
    for path in paths_of(name, patterns):
        if built_in and any(part in path for part in LEFT_OUT[name]):
            continue
        target = os.path.realpath(path)
        if target in real:
            found.skip("the same file by another name")
            continue
        real.add(target)
        text, why = read(path)
        if text is None:
            found.skip(why)
            continue
        digest = hashlib.sha256(text.encode()).hexdigest()
        if digest in seen:
            found.skip("the same text")
            continue
        seen[digest] = path
        found.files.append((digest, path))
    found.files.sort()
    if not found.files:
        raise Refused(f"{name}: nothing left of {len(real)} files: "
                      + ", ".join(f"{count} {why}" for why, count in sorted(found.skipped.items())))
    return found
