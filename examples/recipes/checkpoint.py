"""torch.distributed.checkpoint of a pipeline: each rank saves and loads its own stage (no_dist), so
that nothing crosses the wide-area link for it.

    torchrun --nproc-per-node=2 checkpoint.py FOLDER
"""

import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

import longhaul  # noqa: F401

folder = sys.argv[1]
dist.init_process_group("longhaul")
rank = dist.get_rank()


def new_stage():
    module = torch.nn.Linear(64, 64)
    return module, torch.optim.AdamW(module.parameters())


def state_of(module, optimizer):
    return {"model": module.state_dict(), "optimizer": optimizer.state_dict()}


torch.manual_seed(rank)
module, optimizer = new_stage()
module(torch.randn(8, 64)).square().mean().backward()
optimizer.step()
dcp.save(state_of(module, optimizer), checkpoint_id=f"{folder}/stage{rank}", no_dist=True)
dist.barrier()  # every stage is on its disk

again, its_optimizer = new_stage()
for p in again.parameters():
    p.grad = torch.zeros_like(p)
its_optimizer.step()  # an optimizer has no state to load into before its first step
state = state_of(again, its_optimizer)
dcp.load(state, checkpoint_id=f"{folder}/stage{rank}", no_dist=True)
again.load_state_dict(state["model"])
its_optimizer.load_state_dict(state["optimizer"])
for got, saved in zip(again.parameters(), module.parameters()):
    assert torch.equal(got, saved)
    for name, value in optimizer.state[saved].items():
        assert torch.equal(its_optimizer.state[got][name], value), name
print(f"rank {rank} has its stage back", flush=True)
dist.destroy_process_group()
