"""A compressed outer loop (DiLoCo) by hand: every rank trains alone for some steps, then all apply the
mean of their changes, sent in 4 bits with error feedback. The ranks stay equal bit for bit.

    torchrun --nproc-per-node=3 outer_loop.py
"""

import os

import torch
import torch.distributed as dist

import longhaul

ROWS, INNER_STEPS, OUTER_LR, MOMENTUM = 64, 10, 0.7, 0.9
CODEC = os.environ.get("LONGHAUL_OUTER_CODEC", "int4-b64-h64+ef")  # an arm's, under a campaign
SEED = int(os.environ.get("LONGHAUL_SEED", 0))


def averaged(delta, group):
    """The mean of all ranks' deltas, the own one too as the others got it: equal on every rank."""
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    deltas, works = [torch.empty_like(delta) for _ in range(size)], []
    for peer in range(size):
        if peer == rank:
            continue
        work, deltas[rank] = longhaul.isend_decoded(delta, group_dst=peer, group=group)
        works += [work, dist.irecv(deltas[peer], group_src=peer, group=group)]
    for work in works:
        work.wait()
    return torch.stack(deltas).mean(dim=0)  # in the order of ranks


dist.init_process_group("longhaul", pg_options=longhaul.Options())  # exact; the group below has the codec
rank = dist.get_rank()
group = dist.new_group(backend="longhaul", pg_options=longhaul.Options(
    forward=CODEC, backward=CODEC, min_elements=1))
torch.manual_seed(SEED)  # all begin alike
model = torch.nn.Sequential(torch.nn.Linear(128, 256), torch.nn.Tanh(), torch.nn.Linear(256, 128))
inner = torch.optim.AdamW(model.parameters(), lr=1e-3)
shared = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
outer = torch.optim.SGD([shared], lr=OUTER_LR, momentum=MOMENTUM, nesterov=True)
batches = torch.Generator().manual_seed(1000 * SEED + rank)
rows_a_round = ROWS * INNER_STEPS * dist.get_world_size()
rounds = max(1, round(int(os.environ.get("LONGHAUL_TOKENS", 5 * rows_a_round)) / rows_a_round))
for outer_step in range(rounds):
    for _ in range(INNER_STEPS):
        x = torch.randn(ROWS, 128, generator=batches)
        loss = (model(x) - x.roll(1, dims=1)).square().mean()
        inner.zero_grad()
        loss.backward()
        inner.step()
    own = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    shared.grad = averaged(shared - own, group)
    outer.step()
    torch.nn.utils.vector_to_parameters(shared.clone(), model.parameters())
    longhaul.log(outer_step + 1, loss=loss.item(), tokens=ROWS * INNER_STEPS)
    print(f"rank {rank}: outer step {outer_step} loss {loss.item():.4f}", flush=True)

x = torch.randn(512, 128, generator=torch.Generator().manual_seed(7))  # held out, on every rank
with torch.no_grad():
    longhaul.log(final=(model(x) - x.roll(1, dims=1)).square().mean().item())
print(f"weights {shared.double().sum().item()!r}", flush=True)
dist.destroy_process_group()
