"""`longhaul _measure`: what the engine's `measure` asks. An answer is one JSON document; a failure is its "error"."""

import dataclasses
import json
import math
import sys

from longhaul.commands import Parser
from longhaul.record import RECORD, Unreadable, open_record
from longhaul.refusal import Refused, need


def parser():
    whole = Parser("_measure", "what the engine asks; no command of its own")
    parts = whole.add_subparsers(dest="what", required=True)
    forecast = parts.add_parser("forecast", help="of the design on stdin")
    estimates = parts.add_parser("estimates", help="rows of the record's table, and the table that people read")
    estimates.add_argument("--everything", action="store_true")
    losses = parts.add_parser("losses", help="the rows of a losses.csv")
    losses.add_argument("path")
    for part in (forecast, estimates):
        part.add_argument("results")
    estimates.add_argument("experiment", type=int)
    return whole


def run(options):
    try:
        answer = {"forecast": _forecast, "estimates": _estimates, "losses": _losses}[options.what](options)
    except Refused as refused:
        answer = {"error": str(refused), "missing": isinstance(refused.__cause__, ImportError)}
    # No text of the engine holds half a character, and no number of JSON is none.
    text = json.dumps(_told(answer), ensure_ascii=False, allow_nan=False)
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))


def _told(value):
    """Floats that are no numbers as texts: "inf", "nan"."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _told(one) for key, one in value.items()}
    return [_told(one) for one in value] if isinstance(value, list) else value


def _losses(options):
    from longhaul.analysis.loss_file import read_losses
    return dataclasses.asdict(read_losses(options.path))


def _need_numbers(what):
    need("numpy", what)
    need("scipy.special", what, "scipy")


def _experiment(options):
    record = open_record(options.results)
    found = next((e for e in record.experiments() if e.id == options.experiment), None)
    if not found:
        raise Refused(f"{options.results} has no experiment {options.experiment}")
    return record, found


def _forecast(options):
    _need_numbers("the forecast of what this design can resolve")
    from longhaul.analysis.forecast import forecast
    try:
        record = open_record(options.results)
    except Unreadable as why:
        if not isinstance(why.__cause__, FileNotFoundError):
            raise
        record = None
    return forecast(json.load(sys.stdin), record)


def _estimates(options):
    _need_numbers("the table of estimates")
    from longhaul.analysis.campaign import analyse
    from longhaul.analysis.rows import estimates
    from longhaul.analysis.text import campaign_table
    record, experiment = _experiment(options)
    a = analyse(record, experiment)
    if a.mixed_files:
        raise Refused(f"{options.results}/{RECORD}: {a.curve_note}")
    return {"estimates": [dataclasses.asdict(row) for row in estimates(a)],
            "table": campaign_table(a, options.everything)}
