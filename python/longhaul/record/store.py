"""Opening a record, and its rows."""

import dataclasses
import fcntl
import hashlib
import os
import sqlite3
import struct
import types
import typing

from longhaul.record import rows
from longhaul.refusal import Refused, need

RECORD = "longhaul.sqlite"
VERSION = 2  # PRAGMA user_version of experiments/record/schema.sql
_FLOCK = "hhqqi4x"  # struct flock


class Unreadable(Refused):
    """A record that is missing, damaged, held by others, or not to be read by us."""


class OtherVersion(Unreadable):
    """A record that another version of longhaul wrote."""


def _run_byte(run, kind):
    return struct.pack(_FLOCK, kind, os.SEEK_SET, run, 1, 0)


def _records_below(folder):
    """For the end of a message: the first folder in it that has a record; or that a record is named by its folder."""
    if os.path.isfile(folder):
        return "; a record is named by its folder"
    try:
        found = sorted(os.path.join(folder, name) for name in os.listdir(folder)
                       if os.path.exists(os.path.join(folder, name, RECORD)))
    except OSError:
        found = []
    return f"; {found[0]} has one" if found else ""


def _failure(error, tried, path):
    """What SQLite said, as the engine words it."""
    code = (getattr(error, "sqlite_errorcode", 0) or 0) & 0xff
    why = str(error)
    if code == 14:  # SQLITE_CANTOPEN: the system says why
        try:
            with open(path, "rb"):
                pass
        except OSError as seen:
            why += f" ({seen.strerror})"
    held = "; another process holds the record" if code in (5, 6) else ""  # SQLITE_BUSY, SQLITE_LOCKED
    return Unreadable(f"{tried}: {os.path.realpath(path)}: {why}{held}")


def _connect(path, mode):
    quoted = os.path.abspath(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    db = sqlite3.connect(f"file:{quoted}?{mode}", uri=True, timeout=30, isolation_level=None, check_same_thread=False)
    # Other bytes than UTF-8 (of a path, say) stay what they are.
    db.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
    return db


def _open(path):
    try:
        db = _connect(path, "mode=ro")
        db.execute("PRAGMA user_version")
        return db
    except sqlite3.Error:  # a folder that we may not write has no room for the shared-memory file of WAL mode
        try:
            return _connect(path, "immutable=1&mode=ro")
        except sqlite3.Error as error:
            raise _failure(error, f"open {path}", path) from error


def open_record(folder) -> "Record":
    """The record of a folder.

    Raises:
        OtherVersion: Another version of longhaul wrote it.
        Unreadable: It is not there, empty, damaged, or not ours to read.
    """
    folder = os.fspath(folder)
    path = f"{folder}/{RECORD}"
    try:
        os.stat(path)
    except OSError as error:
        raise Unreadable(f"no record there: open {path}: {error.strerror}{_records_below(folder)}") from error
    try:
        locks = os.open(f"{folder}/longhaul.lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # nobody ever wrote
        locks = -1
    # A record has its tables only when its first writer, who holds byte 0 meanwhile, has opened it.
    if locks >= 0:
        fcntl.fcntl(locks, fcntl.F_OFD_SETLKW, _run_byte(0, fcntl.F_RDLCK))
    try:
        db = _open(path)
    finally:
        if locks >= 0:
            fcntl.fcntl(locks, fcntl.F_OFD_SETLK, _run_byte(0, fcntl.F_UNLCK))
    record = Record(folder, db, locks)
    version = record.query("PRAGMA user_version")[0][0]
    if version == 0:  # the disk was full, or what began it was killed at once
        raise Unreadable(f"open {path}: nothing was written into it yet")
    if version != VERSION:
        raise OtherVersion(f"open {path}: schema version {version}, this program reads {VERSION}")
    return record


def _reader(kind):
    """A row of the table of a dataclass as one. Numbers that are none are texts in the database."""
    makers = []
    for one in dataclasses.fields(kind):
        if one.name == "facts":
            continue
        types_of = set(typing.get_args(one.type)) if isinstance(one.type, types.UnionType) else {one.type}
        if float in types_of:
            makers.append(lambda x: x if x is None else float(x))
        elif bool in types_of:
            makers.append(bool)
        else:
            makers.append(None)
    if not any(makers):
        return lambda row: kind(*row)
    return lambda row: kind(*(make(x) if make else x for make, x in zip(makers, row)))


def _columns(kind):
    return ", ".join(one.name for one in dataclasses.fields(kind) if one.name != "facts")


class Record:
    """An open record. Errors of the database are Unreadable."""

    def __init__(self, folder, db, locks):
        self.folder, self._db, self._locks = folder, db, locks
        self._tables = None

    def close(self) -> None:
        self._db.close()
        if self._locks >= 0:
            os.close(self._locks)
            self._locks = -1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if getattr(self, "_locks", -1) >= 0:
            self.close()

    @property
    def path(self) -> str:
        return f"{self.folder}/{RECORD}"

    def query(self, sql: str, *values) -> list[tuple]:
        """All rows of any query."""
        try:
            return self._db.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            # What could not be prepared has no words of its own.
            prepared = not isinstance(error, sqlite3.OperationalError) or "no such" not in str(error)
            raise _failure(error, sql.partition("(")[0] if prepared else "prepare", self.path) from error

    def has_table(self, name: str) -> bool:
        if self._tables is None:
            self._tables = {row[0] for row in self.query("SELECT name FROM sqlite_master")}
        return name in self._tables

    def read(self, kind: type, run: int) -> list:
        """All rows of a run, of one of the dataclasses of TABLES. The first records lack some tables, and so have none
        of those rows."""
        table, order = rows.TABLES[kind]
        if table in rows.LATER and not self.has_table(table):
            return []
        make = _reader(kind)
        return [make(row) for row in
                self.query(f"SELECT {_columns(kind)} FROM {table} WHERE run_id = ? ORDER BY {order}", run)]

    def experiments(self) -> list[rows.Experiment]:
        """In the order they were begun.

        Raises:
            Unreadable: The plan of one is another than when it began: estimates are what the plan asked for.
        """
        found = [rows.Experiment(*row)
                 for row in self.query(f"SELECT {_columns(rows.Experiment)} FROM experiments ORDER BY id")]
        if self.has_table("experiment_facts"):
            by_id = {e.id: e for e in found}
            for experiment, key, value in self.query(
                    "SELECT experiment_id, key, value FROM experiment_facts ORDER BY experiment_id, key"):
                by_id[experiment].facts[key] = value
        for e in found:
            if (sha256 := plan_sha256(e)) != e.plan_sha256:
                raise Unreadable(
                    f"{self.folder}: the plan of experiment {e.id} ('{e.name}') has SHA-256 {sha256}, and {e.plan_sha256} "
                    "was recorded when it began: the plan was changed or is damaged; take a copy of the record from "
                    "before that")
        return found

    def runs(self, experiment: int) -> list[rows.Run]:
        """In the order they were begun; died ones with the status "died"."""
        return self._runs_where("experiment_id", experiment)

    def run(self, number: int) -> rows.Run:
        found = self._runs_where("id", number)
        if not found:
            raise Unreadable(f"{self.folder} has no run {number}")
        return found[0]

    def _runs_where(self, column, value):
        make = _reader(rows.Run)
        found = [make(row) for row in
                 self.query(f"SELECT {_columns(rows.Run)} FROM runs WHERE {column} = ? ORDER BY id", value)]
        for run in found:
            if run.status == "running" and not self.someone_writes(run.id):
                run.status = "died"
                run.reason = f"process {run.pid} on {run.host} died without a word"
            run.facts = dict(self.query("SELECT key, value FROM run_facts WHERE run_id = ? ORDER BY key", run.id))
        return found

    def someone_writes(self, run: int) -> bool:
        """Whether a living process writes this run: it holds the run's byte of longhaul.lock."""
        if self._locks < 0:
            return False
        answer = fcntl.fcntl(self._locks, fcntl.F_OFD_GETLK, _run_byte(run, fcntl.F_WRLCK))
        return struct.unpack(_FLOCK, answer)[0] != fcntl.F_UNLCK

    def finished(self, experiment: int) -> set[tuple[str, int]]:
        """(arm, seed) that need no further run: ended ok or diverged."""
        return set(self.query("SELECT DISTINCT arm, seed FROM runs WHERE experiment_id = ?"
                              " AND status IN ('ok', 'diverged')", experiment))

    def estimates(self, experiment: int) -> list[rows.Estimate]:
        make = _reader(rows.Estimate)
        return [make(row) for row in
                self.query(f"SELECT {_columns(rows.Estimate)} FROM estimates WHERE experiment_id = ?", experiment)]

    def frame(self, table: str):
        """A table of the record as a data frame, every column as it is called there: units are in the names.

        Raises:
            Refused: pandas is missing.
            Unreadable: There is no such table.
        """
        pandas = need("pandas", "a data frame")
        if not self.has_table(table):
            raise Unreadable(f"{self.path} has no table '{table}'; it has {', '.join(sorted(self._tables))}")
        declared = {row[1]: row[2] for row in self.query(f'PRAGMA table_info("{table}")')}
        frame = pandas.DataFrame(self.query(f'SELECT * FROM "{table}"'), columns=list(declared))
        for name in (name for name, kind in declared.items() if kind == "REAL"):
            frame[name] = frame[name].astype(float)  # "nan" and "inf" are texts in the database
        return frame


def plan_sha256(experiment: rows.Experiment) -> str:
    """Of the plan's text and, where there is one, of the list of named files in its facts."""
    files = experiment.facts.get(rows.NAMED_FILES, "")
    text = f"{experiment.plan_text}\n[files]\n{files}" if files else experiment.plan_text
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
