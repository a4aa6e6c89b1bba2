"""FSDP2 over longhaul, its parameters and gradients as frames of a codec.

    torchrun --nproc-per-node=2 fsdp.py [codec]
    longhaul launch -n 2 --profile continental-us -- python fsdp.py [codec]     (none: exact)
    python fsdp.py alone      the same batches in one process
"""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

import longhaul

codec = sys.argv[1] if len(sys.argv) > 1 else "int8-b64"
if codec == "alone":
    batches = int(os.environ.get("BATCHES", "2"))
    os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="localhost", MASTER_PORT="0")
    codec = "none"
else:
    batches = int(os.environ["WORLD_SIZE"])
dist.init_process_group("longhaul", pg_options=longhaul.Options(collectives=codec))
mine = range(batches) if dist.get_world_size() == 1 else [dist.get_rank()]

torch.manual_seed(0)
teacher = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.Tanh())
blocks = [torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.Tanh()) for _ in range(4)]
model = torch.nn.Sequential(*blocks)
for block in blocks:
    fully_shard(block)
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

seconds = []
for step in range(1, 21):
    begun = time.monotonic()
    losses = torch.zeros(1, dtype=torch.float64)
    for part in mine:
        x = torch.randn(64, 512, generator=torch.Generator().manual_seed(1000 * step + part))
        with torch.no_grad():
            target = teacher(x)
        loss = (model(x) - target).square().mean() / len(mine)
        loss.backward()
        losses += loss.detach().double()
    optimizer.step()
    optimizer.zero_grad()
    seconds.append(time.monotonic() - begun)
    dist.all_reduce(losses)  # float64: exact whatever the codec
    losses /= dist.get_world_size()
    longhaul.log(step, loss=losses.item(), tokens=64 * len(mine))

sent = sum(row.collective_bytes for row in longhaul.crossings() if row.sent)
print(f"loss {losses.item():.6f}, {sorted(seconds)[10]:.3f} s a step, {sent / 20 / 1e6:.3f} MB sent a step",
      flush=True)
dist.destroy_process_group()
