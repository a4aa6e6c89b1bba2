"""`longhaul plan`: which choice reaches a loss first."""

import re
import sys

from longhaul.commands import JSON_HELP, SET_HELP, Parser
from longhaul.files import write_whole
from longhaul.planning.plan import plan
from longhaul.tables import json_text


def parser():
    whole = Parser("plan", "Rank schedules, codecs, outer steps and placements by time to a loss, or its cost",
                   "Examples:\n  longhaul net probe LAB --json > matrix.json\n"
                   "  longhaul plan examples/plan/plan.toml --links matrix.json")
    whole.add_argument("spec", help="Run spec with [compute] and [plan] (docs/plan.md)")
    whole.add_argument("--set", nargs="+", action="extend", default=[], metavar="KEY=VALUE",
                       help=SET_HELP)
    whole.add_argument("--links", metavar="LINKS",
                       help="Profile, topology file, or a matrix that `net probe --json` wrote")
    whole.add_argument("--rank-by", choices=("time", "cost"), metavar="time|cost",
                       help="Rank by time, or by cost, which needs prices in [plan] (docs/plan-money.md) [default: time]")
    whole.add_argument("--rows", type=int, default=12, help="Rows of the table; 0: all")
    whole.add_argument("--csv", metavar="FILE", help="Write every row as CSV")
    whole.add_argument("--write", metavar="DIR",
                       help="Write the first two choices as runs over shaped links, compute slept")
    whole.add_argument("--next", metavar="FILE",
                       help="Write the campaign that decides between the first two choices")
    whole.add_argument("--json", action="store_true", help=JSON_HELP)
    return whole


def _typed(word):
    """A word as a shell takes it."""
    return word if re.fullmatch(r"[\w=:,./+-]+", word, re.ASCII) else "'" + word.replace("'", "'\\''") + "'"


def run(options):
    sets = options.set + ([f"plan.links={options.links}"] if options.links else []) + \
        ([f"plan.rank_by={options.rank_by}"] if options.rank_by else [])
    found = plan(options.spec, sets, _typed(options.spec) + "".join(f" --set {_typed(one)}" for one in sets))
    from longhaul.planning.plan.tables import next_campaign  # pylint: disable=import-outside-toplevel
    if options.csv:
        write_whole(options.csv, found.csv())
    if options.write:
        found.write_choices(options.write)
    sys.stdout.write(json_text(found.document()) if options.json else found.text(options.rows))
    if options.next:
        write_whole(options.next, next_campaign(found))
