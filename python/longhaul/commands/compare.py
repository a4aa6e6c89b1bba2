"""`longhaul compare`: are two runs of one record bit-identical?"""

from longhaul.commands import Parser
from longhaul.record import open_record
from longhaul.report.identical import compare_runs, find_run


def parser():
    whole = Parser("compare", "are two runs of one record bit-identical? Exit status 1 when they are not",
                   "example:\n  longhaul compare results/shaped 1 last")
    whole.add_argument("results", help="folder of the record")
    whole.add_argument("a", help="a run's number, 'last', or an arm's name")
    whole.add_argument("b", help="the run to compare it with")
    return whole


def run(options):
    with open_record(options.results) as record:
        equal, words = compare_runs(record, find_run(record, options.a), find_run(record, options.b))
    print(words)
    return 0 if equal else 1
