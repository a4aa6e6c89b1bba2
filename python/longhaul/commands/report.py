"""`longhaul report`: a record, or two beside each other, as a page."""

from longhaul.commands import Parser
from longhaul.record import open_record
from longhaul.refusal import need


def parser():
    whole = Parser("report", "Write a page with tables, figures and CSV files of a record",
                   "Examples:\n  longhaul report results/smoke\n  longhaul report --compare results/here results/there")
    whole.add_argument("results", nargs="?", help="Folder of the record")
    whole.add_argument("--compare", nargs=2, metavar=("A", "B"),
                       help="Compare two records: estimates with intervals, settings, machines, final losses")
    whole.add_argument("-o", "--out", metavar="DIR", help="Folder to write into [default: RESULTS/report, or B/compare]")
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
