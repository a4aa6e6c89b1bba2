"""`longhaul report`: a record, or two beside each other, as a page."""

from longhaul.commands import Parser
from longhaul.record import open_record
from longhaul.refusal import need


def parser():
    whole = Parser("report", "a self-contained HTML page with figures, CSV beside it; reads only the record. With --compare: two "
                             "records beside each other, every difference with its interval",
                   "examples:\n  longhaul report results/smoke\n  longhaul report --compare results/here results/there")
    whole.add_argument("results", nargs="?", help="folder of the record")
    whole.add_argument("--compare", nargs=2, metavar=("A", "B"),
                       help="folders A and B of two records: estimates, settings, machines, final losses")
    whole.add_argument("--out", help="folder to write into (default: RESULTS/report; B/compare)")
    return whole


def run(options):
    if bool(options.results) == bool(options.compare):
        parser().error("results excludes --compare" if options.results else "results, or --compare A B, is required")
    need("numpy", "a report")
    need("scipy", "a report")
    if options.compare:
        from longhaul.report.compare import compare_records, comparison_text, write_comparison
        with open_record(options.compare[0]) as a, open_record(options.compare[1]) as b:
            comparison = compare_records(a, b)
        page = write_comparison(comparison, options.out or f"{options.compare[1]}/compare")
        print(comparison_text(comparison), end="")
    else:
        from longhaul.report.pages import write_report
        with open_record(options.results) as record:
            page = write_report(record, options.out or f"{options.results}/report")
    print(f"report: {page}")
