"""DistributedDataParallel over longhaul. Nothing here names a codec of gradients: an arm of a campaign
does, by the environment (LONGHAUL_OUTER_CODEC).

    torchrun --nproc-per-node=2 ddp.py [backend]
"""

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import longhaul  # registers the backend, too: not needed for that after `pip install`

ROWS = 16
SEED = int(os.environ.get("LONGHAUL_SEED", 0))
dist.init_process_group(sys.argv[1] if len(sys.argv) > 1 else "longhaul")
rank, size = dist.get_rank(), dist.get_world_size()
steps = max(1, round(int(os.environ.get("LONGHAUL_TOKENS", 20 * ROWS * size)) / (ROWS * size)))
torch.manual_seed(SEED)
model = DistributedDataParallel(torch.nn.Linear(256, 256))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = torch.Generator().manual_seed(1000 * SEED + rank)
for step in range(1, steps + 1):
    x = torch.randn(ROWS, 256, generator=batches)
    loss = (model(x) - x.roll(1, dims=1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    longhaul.log(step, loss=loss.item(), tokens=ROWS)  # rows, of this rank

x = torch.randn(256, 256, generator=torch.Generator().manual_seed(7))  # held out, on every rank
with torch.no_grad():
    longhaul.log(final=(model.module(x) - x.roll(1, dims=1)).square().mean().item())
weights = sum(p.double().sum() for p in model.parameters()).item()
print(f"weights {weights!r}", flush=True)
dist.destroy_process_group()
