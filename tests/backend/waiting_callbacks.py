"""Callbacks of futures that wait for other operations: DDP's own PowerSGD hook, and by hand."""

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

import launch

STEPS = 6


def train(group, rank):
    """With PowerSGD from the third step on, in one bucket; gradients of rank 1, so it is lossy."""
    torch.manual_seed(5)
    model = torch.nn.Sequential(torch.nn.Linear(40, 60), torch.nn.ReLU(), torch.nn.Linear(60, 30))
    ddp = DistributedDataParallel(model, process_group=group)
    state = powerSGD_hook.PowerSGDState(
        process_group=group, matrix_approximation_rank=1, start_powerSGD_iter=2,
        min_compression_rate=1)
    ddp.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    torch.manual_seed(100 + rank)
    x, y = torch.randn(16, 40), torch.randn(16, 30)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(ddp(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert state.iter == STEPS, state.iter
    return losses, torch.cat([p.detach().flatten() for p in model.parameters()])


def wait_for_a_later_one(rank):
    """The first one's callback waits for the second, which was started outside of it."""
    first, second, third = (torch.full((4,), float(rank + i)) for i in range(3))
    peers = [dist.all_reduce(x, async_op=True) for x in (first, second, third)]
    futures = [work.get_future() for work in peers]
    chained = futures[0].then(lambda f: f.value()[0] + futures[1].wait()[0] + futures[2].wait()[0])
    assert torch.equal(chained.wait(), torch.full((4,), 9.0)), chained.value()


def worker():
    rank, _ = launch.init()
    for _ in range(20):
        wait_for_a_later_one(rank)
    gloo = dist.new_group([0, 1], backend="gloo")
    losses, weights = train(dist.group.WORLD, rank)
    gloo_losses, gloo_weights = train(gloo, rank)
    torch.testing.assert_close(weights, gloo_weights)
    torch.testing.assert_close(losses, gloo_losses)
    assert losses[-1] < losses[0], losses
    print(f"rank {rank}: PowerSGD {losses[0]:.4f} -> {losses[-1]:.4f}, as over gloo")
    dist.destroy_process_group()


launch.main(worker)
