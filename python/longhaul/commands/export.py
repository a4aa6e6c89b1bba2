"""`longhaul export`: the record for other tools."""

import os

from longhaul.commands import Parser, engine
from longhaul.export import FORMATS, export
from longhaul.refusal import Refused


def parser():
    whole = Parser("export", "Export a record to Parquet, TensorBoard, W&B, MLflow or safetensors",
                   "Example:\n  longhaul export results/shaped --to parquet --out shaped-parquet")
    whole.add_argument("results", help="Folder of the record, or of checkpoints with --to safetensors")
    whole.add_argument("--to", required=True, choices=sorted([*FORMATS, "safetensors"]), metavar="FORMAT",
                       help="Format: " + ", ".join(sorted([*FORMATS, "safetensors"])))
    whole.add_argument("-o", "--out", required=True, metavar="PATH",
                       help="New or empty folder to write into; a file with --to safetensors")
    whole.add_argument("--spec", metavar="FILE", help="With --to safetensors: the resolved spec of the run")
    return whole


def run(options):
    if options.to == "safetensors":  # weights lie in checkpoints, which the engine reads
        if not options.spec:
            raise Refused("--to safetensors needs --spec SPEC.toml, the spec of the run whose checkpoints these are")
        return engine("_export-weights", os.path.abspath(options.results), options.spec, options.out)
    words = export(options.results, options.to, options.out)
    print(f"{options.to}: {words} in {options.out}")
