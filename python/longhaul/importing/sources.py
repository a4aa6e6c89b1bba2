"""Which texts a kind has: patterns, and kinds that this machine has. Read as UTF-8, unpacked, once each, in an order that
their content alone fixes."""

import dataclasses
import glob
import gzip
import hashlib
import os
import sysconfig
import zlib

from .documents import PLAIN, documents, kind_of, pieces, split_at, why_no_text
from .refusal import Refused
from .splits import choose

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
LEAST_BYTES = 64  # of a file that is one text


@dataclasses.dataclass(order=True)
class Text:
    """One document: in a file of its own, or `length` bytes of the scratch file from `at`."""

    digest: str
    place: str
    path: str = ""
    at: int = 0
    length: int = 0


class Found:
    """`texts` in the order of their hashes, which is a shuffled one: any part of them is a sample. `skipped`: {why: how
    many}; `split`: the split that all are of, where their files' names say it."""

    def __init__(self, scratch):
        self.texts, self.skipped, self.split, self.digests = [], {}, "", set()
        self.scratch, self.end = scratch, 0

    def skip(self, why):
        self.skipped[why] = self.skipped.get(why, 0) + 1

    def add(self, text):
        if text.digest in self.digests:
            self.skip("the same text")
            return False
        self.digests.add(text.digest)
        self.texts.append(text)
        return True

    def add_file(self, path):
        """A file that is one text."""
        digest, size = hashlib.sha256(), 0
        try:
            why = why_no_text(path)
            for piece in [] if why else pieces(path):
                raw = piece.encode()
                if b"\0" in raw:
                    why = "no UTF-8 text"
                    break
                digest.update(raw)
                size += len(raw)
        except (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error):
            why = "no UTF-8 text"
        except OSError as error:
            why = error.strerror or "unreadable"
        if why or size < LEAST_BYTES:
            self.skip(why or f"below {LEAST_BYTES} bytes")
        else:
            self.add(Text(digest.hexdigest(), path, path=path))

    def add_documents(self, path, of_file):
        """Each (place, text) of a file; the text is kept in the scratch file."""
        try:
            for place, text in of_file:
                try:
                    raw = text.encode()
                except UnicodeEncodeError:
                    self.skip("no Unicode text (half a surrogate pair)")
                    continue
                if not raw or b"\0" in raw:
                    self.skip("empty" if not raw else "no UTF-8 text")
                elif self.add(Text(hashlib.sha256(raw).hexdigest(), place, at=self.end, length=len(raw))):
                    self.scratch.write(raw)
                    self.end += len(raw)
        except UnicodeDecodeError as error:
            raise Refused(f"{path}: no UTF-8 text: {error}") from error
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise Refused(f"{path}: a damaged gzip: {error}") from error

    def pieces(self, text):
        """A document's text in pieces, in order."""
        if text.path:
            yield from pieces(text.path)
            return
        self.scratch.seek(text.at)
        yield self.scratch.read(text.length).decode()


def paths_of(name, patterns):
    found = set()
    for pattern in patterns:
        for path in glob.iglob(os.path.expanduser(pattern), recursive=True, include_hidden=False) \
                if glob.has_magic(pattern) else [pattern]:
            if os.path.isfile(path):
                found.add(path)
            elif os.path.isdir(path) and not glob.has_magic(pattern):
                raise Refused(f"{name}: {pattern} is a folder: say {name}='{os.path.join(pattern, '**/*')}'")
            elif not glob.has_magic(pattern):
                raise Refused(f"{name}: {pattern}: no such file")
    if not found:
        raise Refused(f"{name}: no file matches {', '.join(patterns)}")
    return sorted(found)


def gather(name, patterns, scratch, column="text", split=None, plain=False, mark=None):
    """The texts of a kind.

    Args:
        name: The kind.
        patterns: Its patterns, or None for a kind that every machine has.
        scratch: A binary file for texts that are not files.
        column: The key or column of a document's text in JSON, CSV and tables.
        split: The split to take of files of those forms.
        plain: Every file is one text as it is.
        mark: What is between the documents of a file of text.
    """
    built_in = patterns is None
    if built_in:
        if name not in BUILT_IN:
            raise Refused(f"'{name}' is no kind that every machine has ({', '.join(BUILT_IN)}): say {name}=PATTERN")
        patterns = BUILT_IN[name]()
    found, real, kinds = Found(scratch), set(), {}
    for path in paths_of(name, patterns):
        if built_in and any(part in path for part in LEFT_OUT[name]):
            continue
        target = os.path.realpath(path)
        if target in real:
            found.skip("the same file by another name")
            continue
        real.add(target)
        try:
            kinds[path] = PLAIN if built_in or plain or why_no_text(path) else kind_of(path)
        except (OSError, EOFError, zlib.error):
            kinds[path] = PLAIN  # which counts what is wrong with it
    sets = [path for path, kind in kinds.items() if kind != PLAIN]
    if sets:
        chosen, found.split = choose(sets, split, os.path.commonpath([os.path.dirname(os.path.abspath(p)) for p in sets]))
        kinds = {path: kind for path, kind in kinds.items() if kind == PLAIN or path in set(chosen)}
    elif split:
        raise Refused(f"--split {split}: {name} has no files of JSON, CSV, Arrow or Parquet")
    for path, kind in kinds.items():
        if kind == PLAIN:
            if mark and not why_no_text(path):
                found.add_documents(path, split_at(path, mark))
            else:
                found.add_file(path)
        else:
            found.add_documents(path, documents(path, kind, column))
    found.texts.sort()
    if not found.texts:
        raise Refused(f"{name}: nothing left of {len(real)} files: "
                      + ", ".join(f"{count} {why}" for why, count in sorted(found.skipped.items())))
    scratch.flush()
    return found
