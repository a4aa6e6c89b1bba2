"""Documents of a file: the file itself, a string of each line of JSON, or one of each row of a table or of CSV."""

import csv
import gzip
import io
import json
import os
import re

from .refusal import LFS, Refused

PIECE = 1 << 20  # characters of a text that are read and encoded at a time
JSON, CSV, TABLE, PLAIN = "JSON", "CSV", "table", "plain"
BY_ENDING = {".jsonl": JSON, ".ndjson": JSON, ".json": JSON, ".csv": CSV, ".tsv": CSV, ".parquet": TABLE, ".arrow": TABLE,
             ".feather": TABLE}
# What a file's first bytes say that it is, where that is no text.
MAGIC = {LFS: "a Git LFS pointer (git lfs pull)", b"\xff\xfe": "UTF-16 (save it as UTF-8)",
         b"\xfe\xff": "UTF-16 (save it as UTF-8)", b"\x28\xb5\x2f\xfd": "zstd (unpack it first)",
         b"\xfd7zXZ": "xz (unpack it first)", b"BZh": "bzip2 (unpack it first)", b"PK\x03\x04": "zip (unpack it first)",
         b"%PDF": "PDF (extract its text first)"}
# Where a long text is cut: both halves have the tokens that the whole has, in byte-level BPE as it is used today.
AFTER_LINE, BEFORE_SPACE = re.compile(r"(?<=\S\n)(?=\S)"), re.compile(r"(?<=\S)(?= \S)")
csv.field_size_limit(1 << 30)


def unpacked(path):
    """The bytes of a file, or those in a gzip."""
    with open(path, "rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if packed else open(path, "rb")


def kind_of(path):
    """JSON, CSV, TABLE or PLAIN: by the name, or by the first lines where those are objects of JSON."""
    stem, ending = os.path.splitext(path.lower())
    if ending == ".gz":
        ending = os.path.splitext(stem)[1]
    if ending in BY_ENDING:
        return BY_ENDING[ending]
    with unpacked(path) as file:
        head = file.read(4)
        if head in (b"PAR1", b"ARRO"):
            return TABLE
        if not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
            return PLAIN
        lines = (head + file.read(1 << 20)).split(b"\n")
    whole = [line for line in lines[:-1] or lines if line.strip()][:2]
    return JSON if whole and all(is_object(line) for line in whole) else PLAIN


def is_object(line):
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def why_no_text(path):
    """What a file is that is no text, or ""."""
    with unpacked(path) as file:
        head = file.read(64)
    return next((what for magic, what in MAGIC.items() if head.startswith(magic)), "")


def pieces(path):
    """The text of a file in pieces. Raises UnicodeDecodeError and gzip's errors."""
    with unpacked(path) as raw, io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as file:
        held = ""
        while read := file.read(PIECE):
            held += read
            if len(held) < 2 * PIECE:
                continue
            at = cut_of(held)
            yield held[:at]
            held = held[at:]
        yield held


def cut_of(text):
    """A place near the middle where a text can be cut."""
    for pattern in (AFTER_LINE, BEFORE_SPACE):
        found = pattern.search(text, PIECE)
        if found:
            return found.start()
    return PIECE


def split_at(path, mark):
    """Yields (place, text) of what is between the marks in a file."""
    held, number = "", 0
    for piece in pieces(path):
        *whole, held = (held + piece).split(mark)
        for text in whole:
            number += 1
            yield f"{path}:{number}", text.strip("\n")
    yield f"{path}:{number + 1}", held.strip("\n")


def documents(path, kind, column):
    """Yields (place, text) of each document in a file that is not PLAIN.

    Raises:
        Refused: What is there is not what `kind` says, or a document has no `column`.
    """
    if kind == TABLE:
        from .tables import texts_of
        return texts_of(path, column)
    return (of_json if kind == JSON else of_csv)(path, column)


def text_lines(path):
    return io.TextIOWrapper(unpacked(path), encoding="utf-8-sig", newline="\n")


def of_json(path, column):
    """Lines, or one array or object over several lines."""
    with text_lines(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except (ValueError, RecursionError) as error:
                if number == 1 and line.lstrip()[:1] in ("[", "{"):
                    break
                raise Refused(f"{path}:{number}: no JSON: {error}") from error
            if number == 1 and isinstance(value, list):
                break
            yield f"{path}:{number}", text_in(value, column, f"{path}:{number}")
        else:
            return
    try:
        with text_lines(path) as file:
            value = json.load(file)
    except (ValueError, RecursionError) as error:
        raise Refused(f"{path}: no JSON, neither as one value nor by lines: {error}") from error
    for number, item in enumerate(value if isinstance(value, list) else [value], 1):
        yield f"{path}:{number}", text_in(item, column, f"{path}: item {number}")


def text_in(value, column, place):
    """A string, or that of an object's key."""
    if isinstance(value, dict):
        if column not in value:
            keys = ", ".join(map(repr, [*value][:10]))
            raise Refused(f"{place}: no key '{column}'; it has {keys}: say --column NAME, or --plain for the file as it is")
        value = value[column]
        place = f"{place}: '{column}'"
    if not isinstance(value, str):
        raise Refused(f"{place}: is {json.dumps(value)[:40]}: want a string")
    return value


def of_csv(path, column):
    tabs = path.lower().removesuffix(".gz").endswith(".tsv")
    with io.TextIOWrapper(unpacked(path), encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file, dialect="excel-tab" if tabs else "excel")
        try:
            if column not in (rows.fieldnames or ()):
                raise Refused(f"{path}: no column '{column}'; it has {', '.join(rows.fieldnames or ())}: say --column NAME, "
                              "or --plain for the file as it is")
            for row in rows:
                if row[column] is None:
                    raise Refused(f"{path}:{rows.line_num}: no '{column}' in this row")
                yield f"{path}:{rows.line_num}", row[column]
        except csv.Error as error:
            raise Refused(f"{path}:{rows.line_num}: no CSV: {error}") from error
