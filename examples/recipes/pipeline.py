"""torch.distributed.pipelining over longhaul: activations in 4 bits, gradients in 8.

    torchrun --nproc-per-node=2 pipeline.py [backend]
"""

import sys

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

import longhaul

MICROBATCHES, WIDTH = 4, 1024

backend = sys.argv[1] if len(sys.argv) > 1 else "longhaul"
dist.init_process_group(backend)
rank, stages = dist.get_rank(), dist.get_world_size()
if backend == "longhaul":
    group = dist.new_group(backend="longhaul", pg_options=longhaul.Options(
        forward="int4-b64-h64", backward="int8-b64"))
else:
    group = dist.group.WORLD

torch.manual_seed(rank)
module = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh())
optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
stage = PipelineStage(module, rank, stages, torch.device("cpu"), group=group)
schedule = Schedule1F1B(stage, MICROBATCHES, loss_fn=torch.nn.functional.mse_loss)
x = torch.randn(32, WIDTH, generator=torch.Generator().manual_seed(7))  # the same on every rank
for step in range(10):
    losses = []
    if rank == 0:
        schedule.step(x)
    elif rank == stages - 1:
        schedule.step(target=0.1 * x.roll(1, dims=1), losses=losses)
        print(f"step {step} loss {torch.stack(losses).mean().item():.4f}", flush=True)
    else:
        schedule.step()
    optimizer.step()
    optimizer.zero_grad()

if backend == "longhaul":
    for c in longhaul.crossings(group):
        if c.sent:
            print(f"rank {rank} sent {c.tensors} {c.kind or 'other'} tensors to rank {c.peer} with "
                  f"{c.codec}, {c.bits_per_element:.2f} bits per element", flush=True)
dist.destroy_process_group()
