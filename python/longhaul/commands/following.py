"""`longhaul follow`: a record's series, live."""

from longhaul.commands import Parser
from longhaul.follow import TOOLS, follow


def parser():
    whole = Parser("follow", "logs a record's series while runs write it; reads only, and ends when none is active",
                   "example:\n  longhaul follow results/shaped --to tensorboard\n"
                   "  WANDB_MODE=online longhaul follow results/shaped --to wandb")
    whole.add_argument("results", help="folder of the record")
    whole.add_argument("--to", required=True, choices=sorted(TOOLS), help="tool that gets the series of `export`")
    whole.add_argument("--out", help="folder of the logs, new or empty (default: RESULTS/TOOL)")
    whole.add_argument("--once", action="store_true", help="log what there is, and end")
    whole.add_argument("--every", type=float, default=2.0, metavar="S", help="seconds between looks (default 2)")
    return whole


def run(options):
    told = follow(options.results, options.to, options.out, options.once, options.every)
    print(f"{options.to}: {told} in {options.out or options.results + '/' + options.to}")
