"""`longhaul plan`: which choice reaches a loss first."""

import re
import sys

from longhaul.commands import Parser
from longhaul.files import write_whole
from longhaul.planning.plan import plan
from longhaul.tables import json_text


def parser():
    whole = Parser("plan", "which schedule, codec, H, outer step and placement reaches a loss first",
                   "The spec is a run's with [compute] and a table [plan] (docs/plan.md): target_loss_nat, curve,\n"
                   "calibration, and lists of schedules, codecs, inner_steps, algorithms, outer_codecs; links.\n\n"
                   "example:\n  longhaul net probe LAB --json > matrix.json\n"
                   "  longhaul plan examples/plan/plan.toml --links matrix.json")
    whole.add_argument("spec", help="run spec with [compute] and [plan]")
    whole.add_argument("--set", nargs="+", action="extend", default=[], metavar="KEY=VALUE",
                       help="override a key: plan.target_loss_nat=2.9")
    whole.add_argument("--links", metavar="FILE",
                       help="a matrix that `net probe --json` wrote, a profile or a topology file")
    whole.add_argument("--rows", type=int, default=12, help="of the table; 0: all")
    whole.add_argument("--csv", metavar="FILE", help="write every row into this file")
    whole.add_argument("--write", metavar="FOLDER",
                       help="a folder for the first two as runs over shaped links, compute slept")
    whole.add_argument("--next", metavar="FILE",
                       help="write the campaign that decides between the first two into this file")
    whole.add_argument("--json", action="store_true", help="one JSON document on stdout")
    return whole


def _typed(word):
    """A word as a shell takes it."""
    return word if re.fullmatch(r"[\w=:,./+-]+", word, re.ASCII) else "'" + word.replace("'", "'\\''") + "'"


def run(options):
    sets = options.set + ([f"plan.links={options.links}"] if options.links else [])
    found = plan(options.spec, sets, _typed(options.spec) + "".join(f" --set {_typed(one)}" for one in sets))
    from longhaul.planning.plan.tables import next_campaign  # pylint: disable=import-outside-toplevel
    if options.csv:
        write_whole(options.csv, found.csv())
    if options.write:
        found.write_choices(options.write)
    sys.stdout.write(json_text(found.document()) if options.json else found.text(options.rows))
    if options.next:
        write_whole(options.next, next_campaign(found))
