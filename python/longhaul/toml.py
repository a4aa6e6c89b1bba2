"""TOML files that people write, with the line that each value stands in; and the one reader of their tables.

    root = read_file("plan.toml", ["network.nodes=500"])
    r = Reader(root, "network")
    nodes = r.take("nodes", int, 1)
    r.within("nodes", nodes, 1, 10**9)
    r.finish()

A refusal is one line: "plan.toml:3: 'network.nodes' is 0; want 1 to 1000000000". The engine's own specs are read by the
engine (netem/topology/table_reader.h), in the same words.
"""

import copy
import os
import re
import tomllib
from dataclasses import dataclass

from longhaul.refusal import Refused
from longhaul.tables import number

MOST_BYTES = 256 * 1024  # of a file
MOST_PARTS = 8  # of a key


@dataclass
class Value:
    """A value (dict, list, str, int, float or bool) and its place: "demo.toml:12", or the override's own text."""

    value: object
    where: str

    @property
    def is_table(self):
        return isinstance(self.value, dict)

    @property
    def is_list(self):
        return isinstance(self.value, list)


def kind(value: Value) -> str:
    for of, name in ((dict, "a table"), (list, "an array"), (str, "a string"), (bool, "a boolean"), (int, "an integer")):
        if isinstance(value.value, of):
            return name
    return "a float"


def shown(text: str, most: int = 80) -> str:
    """Text of a user as a message quotes it: one line of at most `most` bytes."""
    raw = text.encode(errors="surrogateescape")
    cut = len(raw) > most
    if cut:
        text = raw[:most - 3].decode(errors="ignore")
    return re.sub(r"[\x00-\x1f\x7f]", lambda c: f"\\x{ord(c[0]):02x}", text) + ("..." if cut else "")


def read_text(path: str, most: int = 64 << 20) -> str:
    """A text file that a person wrote; one line says what is wrong with it."""
    try:
        with open(path, "rb") as file:
            raw = file.read(most + 1)
    except IsADirectoryError:
        raise Refused(f"{path}: is a folder; want a file") from None
    except OSError as error:
        count = "" if path.startswith("/") else f": this name counts from {os.getcwd()}"
        raise Refused(f"{path}: cannot be read: {error.strerror}; want a file that is there{count}") from None
    if len(raw) > most:
        size = f"{most >> 20} MiB" if most % (1 << 20) == 0 else f"{most} bytes"
        raise Refused(f"{path}: is longer than {size}; want a text file")
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Refused(f"{path}: is UTF-16; save it as UTF-8")
    if b"\0" in raw:
        raise Refused(f"{path}: is no text: it holds bytes of zero")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Refused(f"{path}: is not UTF-8; save it as UTF-8") from None


_SKIP = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_STRING = re.compile(r'"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'', re.S)
_BARE = re.compile(r"[^\s,\]}#=.\[{]+(?:\.[^\s,\]}#=.\[{]+)*")  # of a value, points and all
_PART = re.compile(r"[A-Za-z0-9_-]+")


class _Places:
    """The line of every key's value in a text that is TOML."""

    def __init__(self, text):
        self.text, self.at, self.lines = text, 0, {}
        self.counts = {}
        prefix = ()
        while self.skip() < len(text):
            if text.startswith("[[", self.at):
                begin, self.at = self.at, self.at + 2
                keys = self.inside(self.keys())
                n = self.counts[keys] = self.counts.get(keys, -1) + 1
                prefix = (*keys, n)
                self.note(keys, begin, keep=True)
                self.note(prefix, begin)
                self.at += 2
            elif text[self.at] == "[":
                begin, self.at = self.at, self.at + 1
                prefix = self.inside(self.keys())
                self.note(prefix, begin)
                self.at += 1
            else:
                self.pair(prefix)

    def skip(self):
        self.at = _SKIP.match(self.text, self.at).end()
        return self.at

    def note(self, path, at, keep=False):
        line = self.text.count("\n", 0, at) + 1
        for n in range(1, len(path)):
            self.lines.setdefault(path[:n], line)
        if not (keep and path in self.lines):
            self.lines[path] = line

    def inside(self, keys):
        """The place of a header's keys: of a list of tables its last."""
        path = ()
        for n, key in enumerate(keys):
            path = (*path, key)
            if path in self.counts and n + 1 < len(keys):
                path = (*path, self.counts[path])
        return path

    def keys(self):
        parts = []
        while True:
            self.skip()
            found = _STRING.match(self.text, self.at) or _PART.match(self.text, self.at)
            self.at = found.end()
            parts.append(next(iter(tomllib.loads(f"{found[0]} = 0"))))
            if self.skip() >= len(self.text) or self.text[self.at] != ".":
                return tuple(parts)
            self.at += 1

    def pair(self, prefix):
        path = (*prefix, *self.keys())
        self.at += 1  # =
        self.skip()
        self.value(path)

    def value(self, path):
        self.note(path, self.at)
        if self.text[self.at] in "[{":
            closing, n = "]" if self.text[self.at] == "[" else "}", 0
            self.at += 1
            while self.text[self.skip()] != closing:
                if closing == "]":
                    self.value((*path, n))
                else:
                    self.pair(path)
                n += 1
                if self.text[self.skip()] == ",":
                    self.at += 1
            self.at += 1
        else:
            self.at = (_STRING.match(self.text, self.at) or _BARE.match(self.text, self.at)).end()


def parse(text: str, origin: str) -> Value:
    """The tree of a text; `origin` stands before the line in messages."""
    if len(text.encode()) > MOST_BYTES:
        raise Refused(f"{origin}: longer than {MOST_BYTES} bytes: no spec is")
    try:
        tree = tomllib.loads(text)
        places = _Places(text).lines
    except tomllib.TOMLDecodeError as error:
        said = re.match(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", str(error), re.S)
        line = said[2] if said and said[2] else text.rstrip("\n").count("\n") + 1
        raise Refused(f"{origin}:{line}: {shown(said[1] if said else str(error), 300)}") from None
    except (RecursionError, ValueError):
        raise Refused(f"{origin}: is nested too deep, or a number in it is too long") from None

    def convert(of, path):
        where = f"{origin}:{places[path]}" if path else origin
        if len(path) - sum(isinstance(part, int) for part in path) > MOST_PARTS:
            raise Refused(f"{where}: a key of more than {MOST_PARTS} parts")
        if isinstance(of, dict):
            return Value({key: convert(one, (*path, key)) for key, one in sorted(of.items())}, where)
        if isinstance(of, list):
            return Value([convert(one, (*path, n)) for n, one in enumerate(of)], where)
        if not isinstance(of, (str, int, float)):
            raise Refused(f"{where}: dates and times are not used here; quote it")
        if isinstance(of, int) and not -2**63 <= of < 2**63:
            raise Refused(f"{where}: '{shown(str(of))}' is not representable in 64 bits")
        return Value(of, where)

    return convert(tree, ())


def read_file(path: str, sets=()) -> Value:
    """The tree of a file, then the overrides "a.b=c" in order."""
    root = parse(read_text(path, MOST_BYTES), path)
    for one in sets:
        assign(root, one)
    return root


def assign(root: Value, assignment: str) -> None:
    """"a.b=c": c is read as TOML; what is not TOML is a string."""
    where = f"--set {shown(assignment)}"
    key, equals, text = assignment.partition("=")
    key, text = key.strip(" \t"), text.strip(" \t")
    if not equals:
        raise Refused(f"{where}: want key.key=value")
    try:
        leaf = parse(f"v = {text}", where).value["v"].value
    except Refused:
        if re.fullmatch(r"[+-]?\d+", text):
            raise Refused(f"{where}: '{shown(text)}' is no integer (64 bits, no zero ahead)") from None
        leaf = text
    put(root, key, Value(leaf, where))


def _parts(path):
    parts = path.split(".")
    return parts if all(parts) and len(parts) <= MOST_PARTS else None


def put(root: Value, path: str, leaf: Value) -> None:
    """Sets the leaf at "a.b", making tables on the way."""
    parts = _parts(path)
    if not parts:
        raise Refused(f"{leaf.where}: '{shown(path)}' is not a key a.b of at most {MOST_PARTS} parts")
    at = root
    for n, part in enumerate(parts):
        if not at.is_table:
            raise Refused(f"{leaf.where}: '{shown(path)}' goes through {kind(at)}, which is no table")
        if n + 1 == len(parts):
            at.value[part] = leaf
        else:
            at = at.value.setdefault(part, Value({}, leaf.where))


def find(root: Value, path: str) -> Value | None:
    at = root
    for part in path.split("."):
        if not at.is_table or part not in at.value:
            return None
        at = at.value[part]
    return at


def erase(root: Value, path: str) -> None:
    parent, _, leaf = path.rpartition(".")
    table = find(root, parent) if parent else root
    if table is not None and table.is_table:
        table.value.pop(leaf, None)


def merged(base: Value, over: Value) -> Value:
    """`over` laid on `base`: tables are merged, all else is replaced."""
    if not base.is_table or not over.is_table:
        return copy.deepcopy(over)
    whole = {key: copy.copy(one) for key, one in base.value.items()}
    for key, one in over.value.items():
        whole[key] = merged(whole[key], one) if key in whole else one
    return Value(whole, base.where)


_WANTED = {bool: "true or false", int: "an integer", float: "a number", str: "a string"}


def _takes(of, value):
    """Whether a plain value is of the type; a whole number will do for a float."""
    return isinstance(value, of) and not (of is int and isinstance(value, bool)) or \
        of is float and isinstance(value, int) and not isinstance(value, bool)


class Reader:
    """Reads the keys of one table and remembers which it was asked for. An unknown key beats every other failure of the
    table, of which the first is told: a typo is both an unknown key and a missing one."""

    def __init__(self, root: Value, path: str = "", label: str | None = None):
        """path: of the table in `root`, "" for the root; a table that is not there reads as empty. label: `root` is an
        element of an array, and this stands before its keys."""
        found = root if label is not None or not path else find(root, path)
        self.path, self.at = path if label is None else label, found or root
        self.present, self.known, self.error = found is not None, set(), None
        if found is not None and not found.is_table:
            raise Refused(f"{found.where}: '{self.path}' is {kind(found)}, want a table")
        self.table = found.value if found is not None else {}

    def has(self, key):
        return key in self.table

    def fail(self, key, message):
        if self.error is None:
            where = self.table[key].where if key in self.table else self.at.where
            full = f"{self.path}.{key}" if self.path else key
            self.error = f"{where}: '{full}'{'' if message.startswith(':') else ' '}{message}"

    def check(self, holds, key, message):
        if not holds:
            self.fail(key, message)

    def skip(self, *keys):
        self.known.update(keys)

    def take(self, key, of, default=None, required=False):
        """The value of a key as `of`: bool, int, float or str, or [one of them] for an array."""
        self.known.add(key)
        if key not in self.table:
            if required:
                self.fail(key, "is missing")
            return default
        value, one = self.table[key], of[0] if isinstance(of, list) else of
        items = value.value if isinstance(of, list) and value.is_list else [value]
        wrong = next((item for item in items if not _takes(one, item.value)), None)
        if isinstance(of, list) and not value.is_list:
            wrong = value
        if wrong is not None:
            wanted = f"an array of {_WANTED[one].split(' ', 1)[1]}s" if isinstance(of, list) else _WANTED[one]
            self.fail(key, f"is {kind(wrong)}, want {wanted}")
            return default
        return [one(item.value) for item in items] if isinstance(of, list) else one(value.value)

    def within(self, key, value, least, most, unit=""):
        """least..most, ends included; NaN lies nowhere. Of a float the ends are floats."""
        if not least <= value <= most:
            self.fail(key, f"is {_plain(value)}; want {_plain(least)} to {_plain(most)}{' ' if unit else ''}{unit}")

    def line(self, key, value, most):
        size = len(value.encode(errors="surrogateescape"))
        if not 1 <= size <= most or re.search(r"[\x00-\x1f\x7f]", value):
            self.fail(key, f"is '{shown(value)}' of {size} bytes; want 1 to {most} without control characters")

    def one_of(self, key, value, known):
        if value not in known:
            self.fail(key, f"is '{shown(value)}'; known: {', '.join(known)}")

    def done(self):
        """Raises the first failure so far."""
        if self.error is not None:
            raise Refused(self.error)

    def finish(self):
        """The same, after unknown keys."""
        for key in sorted(self.table):
            if key not in self.known:
                full = f"{self.path}.{key}" if self.path else key
                raise Refused(f"{self.table[key].where}: unknown key '{shown(full)}'; known: "
                              f"{', '.join(sorted(self.known))}")
        self.done()


def _plain(x):
    return number(x) if isinstance(x, float) else str(x)
