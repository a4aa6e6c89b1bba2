"""`longhaul simulate`: the planning model over a scenario file."""

import os
import sys

from longhaul.commands import JSON_HELP, Parser
from longhaul.files import make_folder, write_whole
from longhaul.planning.simulator import simulate
from longhaul.refusal import Refused, need


def parser():
    whole = Parser("simulate", "Evaluate the planning model with assumed or measured factors",
                   "Example:\n  longhaul simulate planning/scenarios/nodes.toml --set network.nodes=500")
    whole.add_argument("scenario", help="Scenario, a TOML file (docs/simulator.md)")
    whole.add_argument("--set", nargs="+", action="extend", default=[], metavar="KEY=VALUE",
                       help="Override a key of the scenario (repeatable)")
    whole.add_argument("--csv", metavar="FILE", help="Write every column of every row as CSV")
    whole.add_argument("--json", action="store_true", help=JSON_HELP)
    whole.add_argument("--calibration", metavar="FILE",
                       help="Use the measured factors of a calibration.json that `longhaul report` wrote")
    whole.add_argument("--price", metavar="FILE",
                       help="Use the prices of an existing model that `longhaul price --json FILE` wrote")
    whole.add_argument("--spread", metavar="FILE",
                       help="With ranges in [assume]: write medians and 90 %% intervals as CSV")
    whole.add_argument("--tornado", metavar="FILE", help="With ranges in [assume]: write what each factor moves as CSV")
    whole.add_argument("--plots", metavar="DIR",
                       help="With ranges in [assume]: write fan.svg and tornado.svg with their CSV files")
    whole.add_argument("--break-even", metavar="FILE",
                       help="With [break_even]: write the turning point of each scenario as CSV")
    whole.add_argument("--conclusions", metavar="FILE", help="With --calibration or --price: write every conclusion as CSV")
    whole.add_argument("--codec", default="", help="Codec of the calibration or of the prices to use")
    whole.add_argument("--extrapolate", action="store_true", help="Scale the measured alpha of eta_H to other sizes")
    return whole


def run(options):
    if options.conclusions and not (options.calibration or options.price):
        raise Refused("--conclusions writes what a calibration changes; give --calibration FILE or --price FILE too")
    wants = (["ranges"] if options.spread or options.tornado or options.plots else []) + \
        (["break-even"] if options.break_even else [])
    answer = simulate(options.scenario, options.set, options.calibration, options.codec, options.extrapolate, wants,
                      options.price)
    from longhaul.planning.simulator import conclusions, spreads  # pylint: disable=import-outside-toplevel
    file = answer.file
    if options.csv:
        write_whole(options.csv, answer.results.csv())
    if options.conclusions:
        write_whole(options.conclusions, conclusions.conclusions_csv(answer.attributions))
    if options.break_even:
        write_whole(options.break_even, spreads.break_even_csv(file, answer.search, answer.turns))
    if options.spread:
        write_whole(options.spread, spreads.spread_csv(file, answer.uncertain))
    if options.tornado:
        write_whole(options.tornado, spreads.tornado_csv(file, answer.uncertain))
    if options.plots:
        make_folder(options.plots)
        write_whole(os.path.join(options.plots, "spread.csv"), spreads.spread_csv(file, answer.uncertain))
        write_whole(os.path.join(options.plots, "tornado.csv"), spreads.tornado_csv(file, answer.uncertain))
        need("matplotlib", "a figure")
        from longhaul.planning.figures import fan, tornado  # pylint: disable=import-outside-toplevel
        fan(options.plots)
        tornado(options.plots)
    sys.stdout.writelines(answer.json() if options.json else [answer.text()])
