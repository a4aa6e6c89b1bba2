"""`longhaul follow`: a record's series, live."""

from longhaul.commands import Parser
from longhaul.follow import TOOLS, follow


def parser():
    whole = Parser("follow", "Log a record live to TensorBoard, Trackio or Weights & Biases; end when no run is active",
                   "Examples:\n  longhaul follow results/shaped --to tensorboard\n"
                   "  WANDB_MODE=online longhaul follow results/shaped --to wandb")
    whole.add_argument("results", help="Folder of the record")
    whole.add_argument("--to", required=True, choices=sorted(TOOLS), metavar="TOOL", help="Tool: " + ", ".join(sorted(TOOLS)))
    whole.add_argument("-o", "--out", metavar="DIR", help="New or empty folder of the logs [default: RESULTS/TOOL]")
    whole.add_argument("--once", action="store_true", help="Log what there is, and end")
    whole.add_argument("--every", type=float, default=2.0, metavar="S", help="Seconds between looks")
    return whole


def run(options):
    told = follow(options.results, options.to, options.out, options.once, options.every)
    print(f"{options.to}: {told} in {options.out or options.results + '/' + options.to}")
