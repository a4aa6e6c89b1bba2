"""`longhaul _price`: what the pass of `longhaul price` through a model found, told on standard input as JSON."""

import json
import sys

from longhaul.commands import Parser
from longhaul.refusal import Refused


def parser():
    whole = Parser("_price")
    whole.add_argument("--choose", action="store_true", help="print the arm that is chosen for each way to cut")
    whole.add_argument("--json", default="", help="file, or - for standard output in place of the tables")
    whole.add_argument("--csv", default="")
    whole.add_argument("--report", default="")
    return whole


def run(options):
    from longhaul.pricing import report

    priced = report.of_command(json.load(sys.stdin))
    if options.choose:
        print(json.dumps([choice.arm for choice in priced.findings.choices]))
        return 0
    document = report.pricing_json(priced) if options.json else ""
    sys.stdout.write(document if options.json == "-" else report.pricing_text(priced))
    files = [(options.json, document), (options.csv, report.rows_csv(priced) if options.csv else ""),
             (options.report, report.pricing_page(priced) if options.report else "")]
    for path, text in files:
        if path not in ("", "-"):
            report.write(path, text)
    if wrong := report.unmet(priced):
        raise Refused(wrong)
    return 0
