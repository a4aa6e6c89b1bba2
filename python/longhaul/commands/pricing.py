"""`longhaul _price`: what the pass of `longhaul price` through a model found, told on standard input as JSON.

Answers JSON too: the engine prints it and writes the files.
"""

import json
import sys

from longhaul.commands import Parser
from longhaul.refusal import need


def parser():
    whole = Parser("_price")
    whole.add_argument("--check", action="store_true", help="import what is needed, and nothing else")
    whole.add_argument("--choose", action="store_true", help="answer the arm that is chosen for each way to cut")
    whole.add_argument("--csv", action="store_true")
    whole.add_argument("--page", action="store_true")
    return whole


def run(options):
    for module in ("numpy", "scipy.special"):
        need(module, "price", module.partition(".")[0])
    if options.check:
        return 0
    from longhaul.pricing import report

    priced = report.of_command(json.load(sys.stdin))
    if options.choose:
        answer = [choice.arm for choice in priced.findings.choices]
    else:
        answer = {"text": report.pricing_text(priced), "json": report.pricing_json(priced),
                  "unmet": report.unmet(priced), "csv": report.rows_csv(priced) if options.csv else "",
                  "page": report.pricing_page(priced) if options.page else ""}
    json.dump(answer, sys.stdout)
    return 0
