"""DistributedDataParallel on two CPU processes: the same bits as over gloo."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import launch


def train(group, rank, hook=None):
    torch.manual_seed(5 + rank)  # DDP must broadcast rank 0's weights
    model = torch.nn.Sequential(torch.nn.Linear(20, 300), torch.nn.ReLU(), torch.nn.BatchNorm1d(300),
                                torch.nn.Linear(300, 5))
    ddp = DistributedDataParallel(model, process_group=group, bucket_cap_mb=0.01)
    if hook:
        ddp.register_comm_hook(group, hook)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    torch.manual_seed(100 + rank)
    x, classes = torch.randn(16, 20), torch.randint(5, (16,))
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(ddp(x), classes)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, torch.cat([p.detach().flatten() for p in model.parameters()])


def averaging_hook(group, bucket):
    """A hook in Python: its callback runs while the backward pass does."""
    work = dist.all_reduce(bucket.buffer() / 2, group=group, async_op=True)
    return work.get_future().then(lambda future: future.value()[0])


def worker():
    rank, _ = launch.init()
    gloo = dist.new_group([0, 1], backend="gloo")
    losses, weights = train(dist.group.WORLD, rank)
    gloo_losses, gloo_weights = train(gloo, rank)
    assert losses == gloo_losses, (losses, gloo_losses)
    assert torch.equal(weights, gloo_weights)
    assert losses[-1] < losses[0], losses
    hook_losses, hook_weights = train(dist.group.WORLD, rank, averaging_hook)
    torch.testing.assert_close(hook_weights, weights)
    print(f"rank {rank}: losses {losses[0]:.4f} -> {losses[-1]:.4f}, equal to gloo bit for bit")
    dist.destroy_process_group()


launch.main(worker)
