"""Runs and campaigns of records: their state and numbers."""

import datetime
import os
from dataclasses import dataclass, field

from longhaul.record import (RECORD, CodecSwitch, Estimate, Evaluation, Experiment, OtherVersion, Record, Run, Simulated,
                             open_record)
from longhaul.record import rows
from longhaul.record.specs import planned_runs, tree, value
from longhaul.refusal import Refused
from longhaul.tables import Table, cell, grid_text

LEVELS = 3  # of folders that are searched for records
_LAUNCHED = "[launch]"  # how the spec of a launched program begins


@dataclass
class ListedRun:
    row: Run
    steps_done: int = 0  # recorded by the last stage of every group; of one, where groups come and go
    steps_planned: int | None = None  # None: the stored spec is one that this version cannot read
    # Codec off at evaluation where that was evaluated, else on, of the last step that was.
    held_out: Evaluation | None = None
    train_loss_nat: float | None = None  # of the last recorded step, mean over groups
    tokens_per_s: float | None = None  # of the recorded steps over the time that they took
    simulated_s: float | None = None  # with a simulated clock: when its last recorded step would have ended for all
    codec_switches: list[CodecSwitch] = field(default_factory=list)


@dataclass
class ListedExperiment:
    row: Experiment
    runs: list[ListedRun] = field(default_factory=list)
    planned: int = 0  # arms x seeds of a campaign's plan; 0 for a single run
    ended: int = 0  # of those, ok or diverged: what `measure` does not run again
    estimates: list[Estimate] = field(default_factory=list)

    @property
    def state(self) -> str:
        """"running", "complete", or "incomplete": neither."""
        statuses = [run.row.status for run in self.runs]
        if "running" in statuses:
            return "running"
        if self.row.campaign:
            return "complete" if 0 < self.planned <= self.ended else "incomplete"
        open_ones = not statuses or "died" in statuses or "interrupted" in statuses
        return "incomplete" if open_ones else "complete"


@dataclass
class ListedRecord:
    folder: str
    error: str = ""  # why it cannot be read; "" where it can
    experiments: list[ListedExperiment] = field(default_factory=list)


# Of each run, in one pass over the steps. Where groups come and go a step is done that one group has done; of a
# launched program every rank may be the one that tells. A loss that is not finite is kept as a text, which AVG would
# take for 0.
_STEPS = """
WITH by_step AS (
  SELECT s.run_id AS run_id, s.step AS step,
    MAX(r.spec_toml LIKE '%on_group_loss = "continue"%' OR r.spec_toml LIKE '[launch]%') AS elastic,
    SUM(CASE WHEN s.stage = r.stages - 1 OR r.spec_toml LIKE '[launch]%' THEN s.tokens ELSE 0 END) AS tokens,
    SUM(s.stage = r.stages - 1 OR r.spec_toml LIKE '[launch]%') AS last_stages,
    r.groups AS groups,
    MAX(s.wall_s) AS wall_s,
    CASE WHEN SUM(typeof(s.loss_nat) = 'text') > 0 THEN 'nan' ELSE AVG(s.loss_nat) END AS loss_nat
  FROM steps s JOIN runs r ON r.id = s.run_id GROUP BY s.run_id, s.step)
SELECT run_id, COUNT(*), SUM(tokens), SUM(wall_s), loss_nat, MAX(step)
FROM by_step WHERE last_stages = groups OR (elastic AND last_stages > 0) GROUP BY run_id"""


def _steps_planned(run):
    """From the keys that every version has had, so that one it does not know costs nothing."""
    spec = tree(run.spec_toml)
    steps, batch, context = (value(spec, key) for key in ("train.steps", "train.batch_rows", "model.context"))
    if isinstance(steps, int):
        return steps
    if not isinstance(batch, int) or not isinstance(context, int) or batch <= 0 or context <= 0 or run.groups <= 0:
        return None
    return run.train_tokens // (batch * context * run.groups)


def _list_run(record, row, steps):
    out = ListedRun(row, steps_planned=_steps_planned(row))
    if row.id in steps:
        out.steps_done, tokens, wall_s, loss = steps[row.id]
        if wall_s > 0:
            out.tokens_per_s = tokens / wall_s
        if loss is not None:
            out.train_loss_nat = float(loss)
    if rows.SIMULATED_CLOCK in row.facts:
        out.simulated_s = max((t.simulated_s for t in record.read(Simulated, row.id)), default=None)
    out.codec_switches = record.read(CodecSwitch, row.id)
    for e in record.read(Evaluation, row.id):  # in the order of steps
        if out.held_out is None or e.step > out.held_out.step or e.codec == "off":
            out.held_out = e
    return out


def _list(record, row, steps):
    return ListedExperiment(
        row, [_list_run(record, run, steps) for run in record.runs(row.id)],
        planned=planned_runs(row.plan_text) if row.campaign else 0,
        ended=len(record.finished(row.id)), estimates=record.estimates(row.id))


def _steps_by_run(record):
    return {run: (steps, tokens, wall_s, loss) for run, steps, tokens, wall_s, loss, _ in record.query(_STEPS)}


def list_experiment(record: Record, row: Experiment) -> ListedExperiment:
    return _list(record, row, _steps_by_run(record))


def list_record(record: Record) -> ListedRecord:
    steps = _steps_by_run(record)
    return ListedRecord(record.folder, "", [_list(record, row, steps) for row in record.experiments()])


def _list_folder(folder):
    try:
        with open_record(folder) as record:
            return list_record(record)
    except OtherVersion as refused:
        return ListedRecord(folder, f"{refused}; the longhaul that wrote it can read it")
    except Refused as refused:
        return ListedRecord(folder, str(refused))


def records_below(folder: str) -> list[ListedRecord]:
    """The record of `folder`, or, where it has none of its own, those of the folders below it, by name. A record that
    cannot be read is listed with its error.

    Raises:
        Refused: There is no such folder.
    """
    if os.path.isfile(folder):
        raise Refused(f"list '{folder}': a file; a record is named by its folder")
    if not os.path.isdir(folder):
        raise Refused(f"list '{folder}': no such folder; `longhaul run` and `longhaul measure` write records into "
                      "results/NAME, or where --results says")
    if os.path.exists(os.path.join(folder, RECORD)):
        return [_list_folder(folder)]

    def refuse(error):
        if error.filename == folder:
            raise Refused(f"list '{folder}': {error.strerror}")

    found = []
    for root, folders, files in os.walk(folder, onerror=refuse):
        if RECORD in files:
            found.append(root)
        if root != folder and os.path.relpath(root, folder).count(os.sep) + 1 >= LEVELS:
            folders.clear()
    return [_list_folder(one) for one in sorted(found)]


# --- for a terminal


def _day(utc):
    """"2026-03-01 12:34:56"."""
    return f"{utc[:10]} {utc[11:19]}" if utc and len(utc) >= 19 else "-"


def _moment(utc):
    try:
        return datetime.datetime.fromisoformat((utc or "").replace("Z", "+00:00"))
    except ValueError:
        return None


def _took(run):
    begun, finished = _moment(run.begun_utc), _moment(run.finished_utc)
    return f"{(finished - begun).total_seconds():.1f} s" if begun and finished else "-"


def loss_text(run: ListedRun) -> str:
    if run.held_out:
        error = run.held_out.standard_error_nat  # 0: nobody told it
        return f"{run.held_out.loss_nat:.4f}" + (f" +-{error:.4f}" if error else "")
    return "-" if run.train_loss_nat is None else f"training {run.train_loss_nat:.4f}"


def _simulated_time(seconds):
    """Every microsecond, and what a person reads."""
    return f"{seconds:.6f} s, {seconds / 3600:.4g} h"


def _steps_text(run):
    return f"{run.steps_done}" + ("" if run.steps_planned is None else f"/{run.steps_planned}")


def launched(run: Run) -> bool:
    """A program that was launched: nobody knows what its ranks are to each other."""
    return run.spec_toml.startswith(_LAUNCHED)


def shape_of(run: Run) -> str:
    """"2 x 4", G and S; of a launched program "8 ranks"."""
    ranks = run.facts.get(rows.RANKS, "")
    return f"{ranks} ranks" if launched(run) and ranks else f"{run.groups} x {run.stages}"


def _runs_table(e):
    table = Table(columns="run | state | arm | seed | G x S | steps | held-out loss, nat | tokens/s | begun (UTC) | took")
    for run in e.runs:
        r = run.row
        table.add(r.id, r.status, r.arm, r.seed, shape_of(r), _steps_text(run), loss_text(run),
                  cell(run.tokens_per_s, "{:.0f}"), _day(r.begun_utc), _took(r))
    return grid_text(table)


def _run_lines(e):
    """Simulated times, changes of codecs, and why a run did not end well; each of all runs, a line each."""
    for run in e.runs:
        if run.simulated_s is not None:
            yield (f"run {run.row.id}: its {run.steps_done} steps would have taken {_simulated_time(run.simulated_s)} "
                   "(simulated)")
    for run in e.runs:
        if run.codec_switches:
            last = run.codec_switches[-1]
            yield (f"run {run.row.id}: boundaries changed codecs {len(run.codec_switches)} times; last at step {last.step}, "
                   f"group {last.group_index}, boundary {last.boundary} {last.direction}: {last.from_codec} > "
                   f"{last.to_codec} ({last.cause})")
    for run in e.runs:
        if run.row.reason:
            yield f"run {run.row.id} {run.row.status}: {run.row.reason}"


def _estimate_lines(e):
    for x in e.estimates:
        if x.quantity != "q" or x.evaluation != "off" or x.value is None:
            continue
        ends = ""
        if x.low is not None and x.high is not None:
            ends = f" [{x.low_bound}{x.low:.4f}, {x.high:.4f}]"
        elif x.level is None:
            ends = " [no interval]"
        yield (f"q of {x.arm}, codec off: {x.value_bound}{x.value:.4f}{ends}" + (f"  ({x.note})" if x.note else ""))


def _experiment_text(e):
    campaign = e.row.campaign
    text = f"\n{'campaign' if campaign else 'experiment'} {e.row.id} '{e.row.name}': {e.state}"
    if campaign:
        text += f", {e.ended} of {e.planned} runs ended"
    text += f"; begun {_day(e.row.begun_utc)} UTC\n"
    if e.row.question:
        text += f"  {e.row.question}\n"
    if not e.runs:
        return text + "no run yet\n"
    return text + _runs_table(e) + "".join(f"{line}\n" for line in [*_run_lines(e), *_estimate_lines(e)])


def listing_text(records: list[ListedRecord], folder: str) -> str:
    """For a terminal; `folder` is what was asked for."""
    if not records:
        return f"no record in '{folder}' or below: `longhaul run SPEC.toml` writes one\n"
    parts = []
    for record in records:
        text = f"{record.folder}/{RECORD}\n"
        if record.error:
            text += f"  cannot be read: {record.error}\n"
        elif not record.experiments:
            text += "nothing recorded yet\n"
        parts.append(text + "".join(map(_experiment_text, record.experiments)))
    return "\n".join(parts)


def run_line(record: Record, number: int) -> str:
    """"run 3 of FOLDER/longhaul.sqlite: ok, 6/6 steps, held-out loss 4.1 +-0.01 nat, 900 tokens/s"."""
    run = _list_run(record, record.run(number), _steps_by_run(record))
    text = f"run {number} of {record.path}: {run.row.status}, {_steps_text(run)} steps"
    if run.held_out:
        text += f", held-out loss {loss_text(run)} nat"
    if run.tokens_per_s is not None:
        text += f", {run.tokens_per_s:.0f} tokens/s"
    if run.simulated_s is not None:
        text += f", {_simulated_time(run.simulated_s)} simulated"
    return text + "\n"
