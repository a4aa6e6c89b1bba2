"""Runs, records, estimates and plans from Python: the command `longhaul`, with data frames for what it found.

What fails raises longhaul.Refused with the line that the command says. Columns are named as in docs/records.md, with
their units; a value's interval stands beside it as NAME_low and NAME_high.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from longhaul.refusal import Refused, need
from longhaul.analysis.pseudo_gradients import Turn, turns
from longhaul.record import RECORD, OuterDelta, Record, open_record
from longhaul.starting import command, environment

if TYPE_CHECKING:
    import pandas

_Path = str | os.PathLike[str]
_Changes = Mapping[str, Any] | None


class _Documented:
    """What a command answered. `document`: all of it (docs/records.md, "For programs")."""

    def __init__(self, document: dict[str, Any]):
        self.document = document


@dataclasses.dataclass(frozen=True)
class Figure:
    """Shown by notebooks."""

    svg: str

    def _repr_html_(self) -> str:
        return self.svg


class Run(_Documented):
    """One run and its rows of the record."""

    def __init__(self, document: dict[str, Any], record: Record):
        super().__init__(document)
        self.record = record
        self.number = document["run"]

    def __repr__(self):
        d = self.document
        held = d["held_out"] or {}
        loss = f", held-out loss {held['loss_nat']:.4f} nat" if held.get("loss_nat") is not None else ""
        return (f"run {self.number} of {self.record.path}: {d['status']}, {d['steps_done']}/{d['steps_planned']} "
                f"steps{loss}")

    def _rows(self, table):
        frame = self.record.frame(table)
        return frame[frame["run_id"] == self.number].drop(columns="run_id").reset_index(drop=True)

    @property
    def steps(self) -> pandas.DataFrame:
        """A row for each step of each worker: loss_nat, tokens, seconds of the step and its parts, bytes."""
        return self._rows("steps")

    @property
    def crossings(self) -> pandas.DataFrame:
        """A row for each path and direction: codec, bytes as predicted and as counted, NMSE."""
        return self._rows("crossings")

    @property
    def links(self) -> pandas.DataFrame:
        """A row for each path before and after the run: rate and round trip as asked for and as measured."""
        return self._rows("links")

    @property
    def evaluations(self) -> pandas.DataFrame:
        """Held-out loss_nat by step, with the codec on and off."""
        return self._rows("evaluations")

    @property
    def pseudo_gradients(self) -> pandas.DataFrame:
        """A row for each outer step: norm of the mean outer delta, its cosine to the one before, and of a group's own delta to
        the mean; NaN where that is not known."""
        columns = [field.name for field in dataclasses.fields(Turn)]
        rows = [dataclasses.astuple(turn) for turn in turns(self.record.read(OuterDelta, self.number))]
        frame = need("pandas", "a data frame").DataFrame(rows, columns=columns)
        return frame.astype(dict.fromkeys(columns[3:], float))


class Results:
    """One record or several, as frames of all their runs; columns folder, arm and seed say whose a row is."""

    def __init__(self, records: list[Record]):
        self.records = records

    def __repr__(self):
        runs = sum(record.query("SELECT COUNT(*) FROM runs")[0][0] for record in self.records)
        return f"{runs} runs of {', '.join(record.folder for record in self.records)}"

    def _all(self, frame_of):
        pandas = need("pandas", "a data frame")
        frames = []
        for record in self.records:
            frame = frame_of(record)
            frame.insert(0, "folder", record.folder)
            frames.append(frame)
        return pandas.concat(frames, ignore_index=True)

    def _rows(self, table):
        def of(record):
            arms = record.frame("runs")[["id", "arm", "seed"]].rename(columns={"id": "run_id"})
            return arms.merge(record.frame(table), on="run_id")
        return self._all(of)

    @property
    def runs(self) -> pandas.DataFrame:
        """A row for each run: arm, seed, codecs, profile, status, build and machine."""
        return self._all(lambda record: record.frame("runs"))

    @property
    def steps(self) -> pandas.DataFrame:
        """As Run.steps."""
        return self._rows("steps")

    @property
    def crossings(self) -> pandas.DataFrame:
        """As Run.crossings."""
        return self._rows("crossings")

    @property
    def links(self) -> pandas.DataFrame:
        """As Run.links."""
        return self._rows("links")

    @property
    def evaluations(self) -> pandas.DataFrame:
        """As Run.evaluations."""
        return self._rows("evaluations")

    @property
    def estimates(self) -> pandas.DataFrame:
        """What `measure` found, a row each: arm, evaluation, quantity, unit, value, low, high, level, method, seeds,
        note."""
        return self._all(lambda record: record.frame("estimates"))

    @property
    def arms(self) -> pandas.DataFrame:
        """The estimates by arm and evaluation: a column for each quantity, with its interval's ends beside it."""
        return _by_arm(self.estimates, ["folder", "experiment_id", "arm", "evaluation"])


    def figure(self, name: str) -> Figure:
        """A figure of the report, as "depth", "reference", "training": those whose data are there.

        Raises:
            Refused: There is none of that name; the line names those that there are.
        """
        drawn = {}
        for record in self.records:
            with tempfile.TemporaryDirectory() as out:
                status, _, errors = _done([command(), "report", record.folder, "--out", out], progress=False)
                if status != 0:
                    raise Refused(_last(errors) or f"longhaul report {record.folder} ended with status {status}")
                for path in sorted(pathlib.Path(out).rglob("*.svg")):
                    text = path.read_text(encoding="utf-8")
                    drawn.setdefault(path.stem, []).append(text[text.index("<svg"):])
        if name not in drawn:
            raise Refused(f"no figure {name!r} of {', '.join(record.folder for record in self.records)}; there are: "
                          f"{', '.join(sorted(drawn)) or 'none (matplotlib is needed to draw)'}")
        return Figure("\n".join(drawn[name]))


class Campaign(_Documented):
    """An experiment of arms and seeds, and what it found."""

    def __init__(self, document: dict[str, Any]):
        super().__init__(document)
        self.notes: list[str] = document["notes"]

    @property
    def runs(self) -> pandas.DataFrame:
        return _frame(self.document["runs"])

    @property
    def estimates(self) -> pandas.DataFrame:
        """A row for each estimate: arm, evaluation, quantity, unit, value, low, high, level, method, seeds, note."""
        return _frame(self.document["estimates"])

    @property
    def arms(self) -> pandas.DataFrame:
        """The estimates by arm and evaluation: a column for each quantity, with its interval's ends beside it."""
        return _by_arm(self.estimates, ["arm", "evaluation"])


class Plan(_Documented):
    @property
    def ranking(self) -> pandas.DataFrame:
        """Schedules, codecs, outer steps and placements by the time in which they reach the loss, best first."""
        return _frame(self.document["rows"])


class Simulation(_Documented):
    @property
    def rows(self) -> pandas.DataFrame:
        """Every number of every scenario."""
        return _frame(self.document["rows"])

    @property
    def conclusions(self) -> pandas.DataFrame:
        """What the scenarios conclude, by assumed and by measured factors, and whether it stays."""
        if "calibration" not in self.document:
            raise Refused("conclusions are what measured factors change: give simulate(..., calibration=FILE), the "
                          "calibration.json that `longhaul report` writes")
        return _frame(self.document["calibration"]["conclusions"])


def run(spec: _Path, change: _Changes = None, *, results: _Path | None = None, arm: str | None = None,
        resume: bool = False, quiet: bool = False) -> Run:
    """Runs a spec to its end, as `longhaul run` does, with its progress on standard error.

    Args:
        spec: The run's TOML file.
        change: Keys of the spec and other values, as {"train.lr": 3e-3}.
        results: Folder of the record; results/<name of the spec>.
        arm: Name of this configuration in the record.
        resume: Go on from the last checkpoint of the same arm and spec.
        quiet: No progress.

    Raises:
        Refused: The run did not end well, in the command's words.
    """
    document = _asked("run", spec, change, progress=not quiet, results=results, arm=arm, resume=resume)
    return Run(document, open_record(document["folder"]))


def measure(spec: _Path, change: _Changes = None, *, results: _Path | None = None, jobs: int | None = None,
            accept_unresolved: bool = False, from_losses: _Path | None = None, quiet: bool = False) -> Campaign:
    """An experiment as `longhaul measure` does it: trains what its record lacks, then estimates.

    Args:
        spec: The campaign's TOML file.
        change: Keys of the spec and other values, as {"campaign.seeds": [1, 2]}.
        results: Folder of the record; results/<name of the campaign>.
        jobs: Runs at a time.
        accept_unresolved: Run a design that cannot show 0.5 % a crossing.
        from_losses: losses.csv of a report of this campaign: computes the table anew and trains nothing.
        quiet: No progress.

    Raises:
        Refused: In the command's words.
    """
    return Campaign(_asked("measure", spec, change, progress=not quiet, results=results, jobs=jobs,
                           accept_unresolved=accept_unresolved, from_losses=from_losses))


def plan(spec: _Path, change: _Changes = None, *, links: _Path | None = None) -> Plan:
    """Which schedule, codec, H, outer step and placement reaches a loss first: docs/plan.md.

    Args:
        spec: A run's spec with [compute] and [plan].
        change: Keys of the spec and other values, as {"plan.target_loss_nat": 2.9}.
        links: A matrix that `net probe --json` wrote, a profile or a topology file.
    """
    return Plan(_asked("plan", spec, change, links=links, rows=0))


def simulate(scenario: _Path, change: _Changes = None, *, calibration: _Path | None = None,
             codec: str | None = None) -> Simulation:
    """The planning model's scenarios: docs/simulator.md.

    Args:
        scenario: A scenario file.
        change: Keys of it and other values, as {"network.nodes": 500}.
        calibration: calibration.json of a report: measured factors in the place of assumed ones.
        codec: Which of the calibration's codecs.
    """
    return Simulation(_asked("simulate", scenario, change, calibration=calibration, codec=codec))


def read(folder: _Path) -> Results:
    """The record of a results folder, or every record one level below it. What is being written shows what there is.

    Raises:
        Refused: There is none, or one cannot be read: missing, of another version, half written, damaged.
    """
    folder = os.fspath(folder).rstrip("/") or "/"
    below = []
    if not os.path.exists(os.path.join(folder, RECORD)):
        with contextlib.suppress(OSError):
            below = sorted(path for name in os.listdir(folder)
                           if os.path.exists(os.path.join(path := os.path.join(folder, name), RECORD)))
    return Results([open_record(one) for one in below or [folder]])


def _word(value):
    """A value as --set takes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(json.dumps(one) if isinstance(one, str) else _word(one) for one in value) + "]"
    return str(value)


def _asked(verb, spec, change, progress=False, **options) -> dict[str, Any]:
    """The document of a command. An option that is None or False is left out."""
    words = [command(), verb, os.fspath(spec), "--json"]
    for key, value in (change or {}).items():
        words += ["--set", f"{key}={_word(value)}"]
    for name, value in options.items():
        if value is not None and value is not False:
            flag = f"--{name.replace('_', '-')}"
            text = os.fspath(value) if isinstance(value, os.PathLike) else str(value)
            words += [flag] if value is True else [flag, text]
    if verb in ("run", "measure") and not progress:
        words.append("--quiet")
    status, output, errors = _done(words, progress)
    try:
        document = json.loads(output)
    except ValueError:
        document = {}
    if status == 0 and document:
        return document
    raise Refused(document.get("error") or _last(errors) or f"{' '.join(words)} ended with status {status}")


def _last(errors: Iterable[str]) -> str:
    """What the command said last, without its name."""
    said = [line.removeprefix("longhaul: ") for line in errors if line.startswith("longhaul: ")]
    return said[-1] if said else ""


def _done(words: list[str], progress: bool) -> tuple[int, str, Iterable[str]]:
    """Status, standard output, and lines of standard error, which are shown as they come with `progress`."""
    child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             errors="replace", env=environment(), start_new_session=True)
    errors: list[str] = []

    def follow():
        for line in child.stderr:
            errors.append(line.rstrip("\n"))
            if progress and not line.startswith("longhaul: "):
                sys.stderr.write(line)
                sys.stderr.flush()

    follower = threading.Thread(target=follow, daemon=True)
    follower.start()
    try:
        output = child.stdout.read()
        status = child.wait()
    except KeyboardInterrupt:  # the command keeps what there is; it is waited for
        child.send_signal(signal.SIGINT)
        child.stdout.read()
        child.wait()
        raise
    finally:
        follower.join(5)
        child.stdout.close()
        child.stderr.close()
    return status, output, errors


def _flat(row: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A row of a document with one level: NAME, NAME_low and NAME_high of a value with its interval, A_B of
    {A: {B: ..}}."""
    out = {}
    for key, value in row.items():
        name = prefix + key
        if not isinstance(value, Mapping):
            out[name] = value
        elif "value" in value and ("low" in value or "ci" in value):
            low, high = value["ci"] if value.get("ci") else (value.get("low"), value.get("high"))
            out |= {name: value["value"], f"{name}_low": low, f"{name}_high": high}
        else:
            out |= _flat(value, f"{name}_")
    return out


def _frame(rows: list[dict[str, Any]]) -> pandas.DataFrame:
    return need("pandas", "a data frame").DataFrame([_flat(row) for row in rows])


# The quantities of an arm, and its column's name. All others (fits, tests of models, the whole campaign's) are in
# estimates.
_OF_ARM = {"delta": "delta_nat", "on_off": "on_off_nat", "ln_eta": "ln_eta", "eta": "eta", "q": "q", "q_f": "q_f",
           "q_b": "q_b", "rho": "rho"}


def _by_arm(estimates: pandas.DataFrame, keys: list[str]) -> pandas.DataFrame:
    """A row for each value of `keys`, a column for each quantity."""
    rows: dict[tuple, dict[str, Any]] = {}
    for one in estimates.to_dict("records"):
        name = _OF_ARM.get(one["quantity"])
        if one["arm"] and name:
            row = rows.setdefault(tuple(one[key] for key in keys), {key: one[key] for key in keys})
            row |= {name: one["value"], f"{name}_low": one["low"], f"{name}_high": one["high"]}
    return need("pandas", "a data frame").DataFrame(list(rows.values()), columns=None if rows else keys)
