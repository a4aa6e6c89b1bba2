"""`longhaul compare`: are two runs of one record bit-identical?"""

from longhaul.commands import Parser
from longhaul.record import open_record
from longhaul.report.identical import compare_runs, find_run


def parser():
    whole = Parser("compare", "Check whether two runs of a record are bit-identical; exit with 1 if they are not",
                   "Example:\n  longhaul compare results/shaped 1 last")
    whole.add_argument("results", help="Folder of the record")
    whole.add_argument("a", help="Number of a run, 'last', or the name of an arm")
    whole.add_argument("b", help="Run to compare it with")
    return whole


def run(options):
    with open_record(options.results) as record:
        equal, words = compare_runs(record, find_run(record, options.a), find_run(record, options.b))
    print(words)
    return 0 if equal else 1
