"""`longhaul _show`: the last screen of the engine's commands, from the record. How the command ended is on standard
input: empty, or why it failed."""

import sys

from longhaul.commands import Parser
from longhaul.record import Evaluation, open_record
from longhaul.refusal import need
from longhaul.report.documents import campaign_document, run_document, timing_document
from longhaul.report.listing import run_line
from longhaul.report.step_time import step_time_text
from longhaul.tables import json_text, text


def parser():
    whole = Parser("_show", "the last screen of a command")
    whole.add_argument("what", choices=["run", "line", "campaign", "timing"])
    whole.add_argument("results")
    whole.add_argument("number", type=int, help="of the run; of the experiment with campaign and timing")
    for name in ("json", "quiet", "verbose"):
        whole.add_argument(f"--{name}", action="store_true")
    return whole


def run(options):
    error = sys.stdin.read()
    need("numpy", "the last screen")
    with open_record(options.results) as record:
        {"run": _run, "line": _line, "campaign": _campaign, "timing": _timing}[options.what](record, options, error)


def _say(options, lines, warnings=False):
    """Lines of progress; warnings nobody may miss who reads the figures (a document has them in its "notes")."""
    if not options.quiet or (warnings and not options.json):
        for line in lines:
            print(line, file=sys.stderr if options.json or options.quiet else sys.stdout)


def _run(record, options, error):
    """The summary; one line with --quiet; a document with --json."""
    if options.json:
        print(json_text(run_document(record, options.number, error)), end="")
    if error:
        return
    from longhaul.analysis.advice import clipping_advice, data_advice, run_learnt_nothing
    row = record.run(options.number)
    if not options.json:
        print(run_line(record, row.id) if options.quiet else step_time_text(record, row, options.verbose), end="")
        _say(options, clipping_advice([row]))
    _say(options, data_advice([row]) + run_learnt_nothing(row, record.read(Evaluation, row.id)), warnings=True)


def _line(record, options, error):
    print(json_text(run_document(record, options.number, error)) if options.json else run_line(record, options.number),
          end="")


def _campaign(record, options, error):
    from longhaul.analysis.advice import clipping_advice, data_advice
    runs = record.runs(options.number)
    if options.json:
        print(json_text(campaign_document(record, options.number, error)), end="")
    _say(options, data_advice(runs), warnings=True)
    if not options.json and not error:
        _say(options, clipping_advice(runs))


def _timing(record, options, error):
    from longhaul.report.timing import timing_findings, timing_table
    findings = timing_findings(record, record.runs(options.number))
    if options.json:
        print(json_text(timing_document(record, options.number, findings, error)), end="")
    else:
        print(f"\n{text(timing_table(findings))}")
