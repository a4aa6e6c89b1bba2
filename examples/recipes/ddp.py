"""DistributedDataParallel over longhaul.

    torchrun --nproc-per-node=2 ddp.py [backend]
"""

import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import longhaul  # noqa: F401  (registers the backend; not needed after `pip install`)

dist.init_process_group(sys.argv[1] if len(sys.argv) > 1 else "longhaul")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(256, 256))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = torch.Generator().manual_seed(rank)
for step in range(20):
    x = torch.randn(16, 256, generator=batches)
    loss = (model(x) - x.roll(1, dims=1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

weights = sum(p.double().sum() for p in model.parameters()).item()
print(f"weights {weights!r}", flush=True)
dist.destroy_process_group()
