"""Accelerate over longhaul, on CPUs.

    torchrun --nproc-per-node=2 accelerate_ddp.py [backend]
"""

import sys

import torch
from accelerate import Accelerator

import longhaul  # noqa: F401

# First: Accelerate takes the group that is there. On CPUs it would make one of gloo by itself.
torch.distributed.init_process_group(sys.argv[1] if len(sys.argv) > 1 else "longhaul")
accelerator = Accelerator(cpu=True)
torch.manual_seed(0)
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
examples = torch.randn(128, 64)
loader = torch.utils.data.DataLoader(examples, batch_size=8)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for x in loader:
    loss = (model(x) - x.roll(1, dims=1)).square().mean()
    optimizer.zero_grad()
    accelerator.backward(loss)
    optimizer.step()

losses = accelerator.gather(loss.detach())
weights = sum(p.double().sum() for p in model.parameters()).item()
print(f"{torch.distributed.get_backend()}: losses {losses.tolist()}", flush=True)
print(f"weights {weights!r}", flush=True)
accelerator.end_training()  # and of the group
