"""`longhaul scale`: a run in simulated time."""

import argparse
import json
import sys

from longhaul.commands import JSON_HELP, SET_HELP, Parser
from longhaul.files import write_whole
from longhaul.planning.scale import MOST_SEEDS, parse_axis, sweep
from longhaul.refusal import need


def _seeds(text):
    if not text.isdecimal() or not 1 <= int(text) <= MOST_SEEDS:
        raise argparse.ArgumentTypeError(f"Value {text} not in range 1 to {MOST_SEEDS}")
    return int(text)


def parser():
    whole = Parser("scale", "Simulate a run with many groups, faults and links",
                   "Example:\n  longhaul scale experiments/specs/scale.toml --seeds 10 --sweep scale.mtbf_h=6,24,96")
    whole.add_argument("spec", help="Run spec with [compute] (docs/scale.md)")
    whole.add_argument("--set", nargs="+", action="extend", default=[], metavar="KEY=VALUE",
                       help=SET_HELP)
    whole.add_argument("--sweep", nargs="+", action="extend", default=[], metavar="KEY=VALUE,VALUE",
                       help="Run every value of a key, such as scale.mtbf_h=6,24,96; several: their product")
    whole.add_argument("--seeds", type=_seeds, default=1, metavar="N", help="Seeds of the faults, from the spec's own on")
    whole.add_argument("--csv", metavar="FILE", help="Write every point and seed as CSV")
    whole.add_argument("--svg", metavar="FILE",
                       help="Draw goodput over the first --sweep, a line for each value of the others")
    whole.add_argument("--json", action="store_true", help=JSON_HELP)
    return whole


def run(options):
    need("numpy", "longhaul scale")
    need("scipy", "longhaul scale")
    found = sweep(options.spec, options.set, [parse_axis(text) for text in options.sweep], options.seeds)
    if options.csv:
        write_whole(options.csv, found.csv())
    if options.svg:
        write_whole(options.svg, found.svg())
    sys.stdout.write(json.dumps(found.document(), sort_keys=True, indent=1, ensure_ascii=False) + "\n" if options.json
                     else found.text())
