"""The JSON documents of commands, for programs that call `longhaul`; docs/records.md has the fields.

"schema" names kind and version. Units stand in keys; what is not there, and what is not finite, is null.
"""

import dataclasses

from longhaul.record import CodecSwitch, Crossing, Evaluation, Link, Record
from longhaul.record import rows
from longhaul.record.contents import read_contents
from longhaul.refusal import Refused, need
from longhaul.report.listing import ListedExperiment, ListedRecord, ListedRun, launched, list_experiment
from longhaul.report.step_time import judged, step_times
from longhaul.report.timing import TimingFindings, timing_table
from longhaul.tables import json_rows, measured_json

_CROSSING = ("src_rank", "dst_rank", "direction", "codec", "tensors", "elements", "payload_bytes", "message_bytes",
             "predicted_wire_bytes", "kernel_tx_bytes", "kernel_rx_bytes", "nmse_mean", "nmse_max")
_LINK = ("phase", "src_node", "dst_node", "nominal_rate_bit_per_s", "nominal_rtt_s", "rtt_median_s",
         "nominal_goodput_bit_per_s", "goodput_bit_per_s", "ok")


def error_document(schema: str, error: str) -> dict:
    """Where nothing had been recorded yet: schema and error alone."""
    return {"schema": schema, "error": error or None}


def _named_files(facts):
    """What the files held that a run's or an experiment's facts name."""
    return [dataclasses.asdict(one) for one in read_contents(facts.get(rows.NAMED_FILES, ""))]


def _run(run: ListedRun):
    r = run.row
    known = not launched(r)
    return {"run": r.id, "arm": r.arm, "role": r.role, "seed": r.seed, "status": r.status, "reason": r.reason or None,
            "steps_done": run.steps_done, "steps_planned": run.steps_planned, "train_tokens": r.train_tokens,
            "budget_fraction": r.budget_fraction, "stages": r.stages if known else None,
            "groups": r.groups if known else None, "forward_codec": r.forward_codec, "backward_codec": r.backward_codec,
            "profile": r.profile, "emulator": r.emulator,
            "held_out": dataclasses.asdict(run.held_out) if run.held_out else None,
            "train_loss_nat": run.train_loss_nat, "tokens_per_s": run.tokens_per_s, "simulated_s": run.simulated_s,
            "begun_utc": r.begun_utc, "finished_utc": r.finished_utc or None, "host": r.host, "cpu": r.cpu, "isa": r.isa,
            "torch_version": r.torch_version, "git_revision": r.git_revision, "named_files": _named_files(r.facts)}


def _estimate(x: rows.Estimate):
    return {"arm": x.arm, "evaluation": x.evaluation, "quantity": x.quantity, "unit": x.unit, "value": x.value, "low": x.low,
            "high": x.high, "level": x.level, "method": x.method, "bound": x.value_bound or None,
            "low_bound": x.low_bound or None, "seeds": x.seeds, "note": x.note}


def _experiment(e: ListedExperiment):
    facts = e.row.facts
    return {"experiment": e.row.id, "kind": e.row.kind, "name": e.row.name, "question": e.row.question, "state": e.state,
            "runs_planned": e.planned, "runs_ended": e.ended, "d0_tokens": e.row.d0_tokens,
            "plan_sha256": e.row.plan_sha256 if e.row.plan_text else None, "named_files": _named_files(facts),
            "forecast": facts.get(rows.FORECAST) or None,
            "accepted_unresolved": facts.get(rows.ACCEPTED_UNRESOLVED) == "true", "begun_utc": e.row.begun_utc,
            "runs": [_run(run) for run in e.runs], "estimates": [_estimate(x) for x in e.estimates]}


def list_document(records: list[ListedRecord]) -> dict:
    return {"schema": "longhaul.list/1",
            "records": [{"folder": record.folder, "error": record.error or None,
                         "experiments": [_experiment(e) for e in record.experiments]} for record in records]}


def _crossing(c: Crossing):
    return {key: getattr(c, key) for key in _CROSSING}


def _link(link: Link):
    return {**{key: getattr(link, key) for key in _LINK}, "why": link.why or None}


def _switch(s: CodecSwitch):
    return {"step": s.step, "group": s.group_index, "boundary": s.boundary, "direction": s.direction, "from": s.from_codec,
            "to": s.to_codec, "cause": s.cause}


def _step_time(record, run):
    """What the run's figures are worth stands in "note"; None: too few steps, or a spec of another version."""
    times = step_times(record, [run])
    if not times or not times[0].measured_steps:
        return None
    t = times[0]
    return {"steady_steps": t.measured_steps, "measured_s": measured_json(t.measured_s),
            "compute_utilisation": measured_json(t.compute_utilisation), "p2_s": t.p2_s, "p1_s": t.p1_s, "p3_s": t.p3_s,
            "ln_measured_over_p2": None if t.p2_s is None else measured_json(t.residual), "verdict": judged(t).text or None,
            "outer_measured_s": t.outer_measured_s, "outer_predicted_s": t.outer_predicted_s, "note": t.note or None}


def _notes(runs):
    need("numpy", "the notes on a run's data")
    from longhaul.analysis.advice import data_advice
    return data_advice(runs)


def _found(record, number):
    for row in record.experiments():
        if row.id == number:
            return list_experiment(record, row)
    raise Refused(f"{record.folder} has no such experiment")


def run_document(record: Record, number: int, error: str = "") -> dict:
    """The run's row, its evaluations, step time, crossings and links. `error`: how it ended, where that was not well."""
    try:
        run = record.run(number)
        experiment = _found(record, run.experiment_id)
    except Refused as refused:
        return error_document("longhaul.run/1", error or str(refused))
    listed = next(one for one in experiment.runs if one.row.id == number)
    return {**error_document("longhaul.run/1", error), "folder": record.folder, "experiment": experiment.row.id,
            **_run(listed), "notes": _notes([run]),
            "evaluations": [dataclasses.asdict(e) for e in record.read(Evaluation, number)],
            "step_time": _step_time(record, run), "crossings": list(map(_crossing, record.read(Crossing, number))),
            "links": list(map(_link, record.read(Link, number))),
            "codec_switches": list(map(_switch, record.read(CodecSwitch, number)))}


def experiment_document(record: Record, number: int, error: str = "") -> dict:
    """A campaign or a grid as `list` shows it, with its estimates."""
    try:
        listed = _found(record, number)
    except Refused as refused:
        return error_document("longhaul.measure/1", error or str(refused))
    return {**error_document("longhaul.measure/1", error), "folder": record.folder, **_experiment(listed)}


def campaign_document(record: Record, number: int, error: str = "") -> dict:
    return {**experiment_document(record, number, error), "notes": _notes(record.runs(number))}


def timing_document(record: Record, number: int, findings: TimingFindings, error: str = "") -> dict:
    """"timing" has a cell a row."""
    return {**experiment_document(record, number, error), "timing": json_rows(timing_table(findings))}
