"""`longhaul export`: the record for other tools."""

import os

from longhaul.commands import Parser, engine
from longhaul.export import FORMATS, export
from longhaul.refusal import Refused


def parser():
    whole = Parser("export", "the record for other tools; reads only, and sends nothing anywhere",
                   "example:\n  longhaul export results/shaped --to parquet --out shaped-parquet")
    whole.add_argument("results", help="folder of the record; of checkpoints with --to safetensors")
    whole.add_argument("--to", required=True, choices=sorted([*FORMATS, "safetensors"]), help="format")
    whole.add_argument("--out", required=True, help="folder to write into, new or empty; a file with --to safetensors")
    whole.add_argument("--spec", help="with --to safetensors: the run's spec, as it was resolved")
    return whole


def run(options):
    if options.to == "safetensors":  # weights lie in checkpoints, which the engine reads
        if not options.spec:
            raise Refused("--to safetensors needs --spec SPEC.toml, the spec of the run whose checkpoints these are")
        return engine("_export-weights", os.path.abspath(options.results), options.spec, options.out)
    words = export(options.results, options.to, options.out)
    print(f"{options.to}: {words} in {options.out}")
