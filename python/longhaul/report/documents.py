"""The JSON documents of commands, for programs that call `longhaul`; docs/records.md has the fields.

"schema" names kind and version. Units stand in keys; what is not there, and what is not finite, is null.
"""

import dataclasses

from longhaul.record import CodecSwitch, Crossing, Evaluation, Experiment, Link, Record
from longhaul.record import rows
from longhaul.record.contents import read_contents
from longhaul.refusal import Refused
from longhaul.report.listing import ListedExperiment, ListedRecord, ListedRun, launched, list_experiment

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
