"""`longhaul list`: runs and campaigns of a record, their state and numbers."""

from longhaul.commands import JSON_HELP, Parser
from longhaul.refusal import Refused
from longhaul.report.documents import error_document, list_document
from longhaul.report.listing import listing_text, records_below
from longhaul.tables import json_text


def parser():
    whole = Parser("list", "List records with their runs and campaigns",
                   "Example:\n  longhaul list results --json")
    whole.add_argument("results", nargs="?", default="results",
                       help="Folder of a record, or of folders with records [default: results]")
    whole.add_argument("--json", action="store_true", help=JSON_HELP)
    return whole


def run(options):
    try:
        records = records_below(options.results)
    except Refused as refused:
        if options.json:
            print(json_text(error_document("longhaul.list/1", str(refused))), end="")
        raise
    print(json_text(list_document(records)) if options.json else listing_text(records, options.results), end="", flush=True)
    unread = sum(bool(record.error) for record in records)
    if unread:
        raise Refused(f"{unread} of {len(records)} records in '{options.results}' cannot be read (listed with why)")
