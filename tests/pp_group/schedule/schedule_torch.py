"""Schedules of torch.distributed.pipelining as CSV, and its verdict about ours.

schedule_torch.py dump FOLDER    one NAME.compute_only.csv and NAME.compute_comms.csv per case
schedule_torch.py judge FOLDER   every *.csv there: torch parses, validates and simulates it
"""
import csv
import pathlib
import sys
from unittest import mock

from torch.distributed.pipelining import schedules, stage

CASES = [  # class, ranks, micro-batches, stages per rank
    ("Interleaved1F1B", 2, 4, 2),
    ("Interleaved1F1B", 4, 8, 3),
    ("Interleaved1F1B", 4, 6, 2),
    ("InterleavedZeroBubble", 4, 8, 1),
    ("InterleavedZeroBubble", 4, 8, 2),
    ("LoopedBFS", 3, 5, 2),
    ("ZBVZeroBubble", 4, 8, 2),
    ("ZBVZeroBubble", 3, 4, 2),
]


def orders(name, ranks, microbatches, stages):
    """The order of every rank without and with communication; no process is started."""
    mocked = mock.create_autospec(stage.PipelineStage, instance=True)
    mocked.group_rank, mocked.group_size, mocked.submod = 0, ranks, None
    mocked.num_stages = stages * ranks
    held = [mocked] * stages
    compute = schedules.get_schedule_class(name)(held, microbatches).pipeline_order
    runtime = schedules._PipelineScheduleRuntime(held, microbatches)
    runtime._prepare_schedule_with_comms(compute)
    return {"compute_only": compute, "compute_comms": runtime.pipeline_order_with_comms}


def dump(folder):
    for name, ranks, microbatches, stages in CASES:
        for kind, order in orders(name, ranks, microbatches, stages).items():
            path = folder / f"{name}_{ranks}_{microbatches}_{stages}.{kind}.csv"
            with open(path, "w", newline="") as file:
                for rank in range(ranks):
                    cells = ["" if action is None else str(action) for action in order[rank]]
                    # Of sharded parameters, which is no part of the order.
                    csv.writer(file).writerow(c for c in cells if "SHARD" not in c and "REDUCE" not in c)


def judge(folder):
    for path in sorted(folder.glob("*.csv")):
        with open(path, newline="") as file:
            order = {
                rank: [schedules._Action.from_str(cell) if cell else None for cell in row]
                for rank, row in enumerate(csv.reader(file))
            }
        stages = 1 + max(a.stage_index for row in order.values() for a in row)
        ranks = {a.stage_index: rank for rank, row in order.items() for a in row}
        if path.name.endswith(".compute_comms.csv"):
            schedules._simulate_comms_compute(order, lambda stage: ranks[stage], stages)
        else:
            microbatches = 1 + max(a.microbatch_index for row in order.values() for a in row)
            schedules._validate_schedule(order, len(order), stages, microbatches)
        print("torch takes", path.name)


folder = pathlib.Path(sys.argv[2])
{"dump": dump, "judge": judge}[sys.argv[1]](folder)
