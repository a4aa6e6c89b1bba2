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


def gradients(rank):
    """Of one rank's model and data, by name."""
    torch.manual_seed(5)
    model = torch.nn.Sequential(torch.nn.Linear(30, 40), torch.nn.Tanh(), torch.nn.Linear(40, 5))
    torch.manual_seed(100 + rank)
    x, classes = torch.randn(16, 30), torch.randint(5, (16,))
    return model, x, classes


def stock_hooks(rank, gloo):
    """Each comm hook that torch has: the mean of both ranks' gradients as one process computes it from
    what the hook sends, or, where it keeps a state of its own, the bits of gloo."""
    from torch.distributed.algorithms.ddp_comm_hooks import (
        default_hooks, post_localSGD_hook, powerSGD_hook, quantization_hooks)

    def run(group, hook, state):
        model, x, classes = gradients(rank)
        ddp = DistributedDataParallel(model, process_group=group)
        ddp.register_comm_hook(state, hook)
        for _ in range(3):
            ddp.zero_grad()
            torch.nn.functional.cross_entropy(ddp(x), classes).backward()
        return [p.grad for p in model.parameters()]

    each = []
    for r in range(2):
        model, x, classes = gradients(r)
        torch.nn.functional.cross_entropy(model(x), classes).backward()
        each.append([p.grad for p in model.parameters()])
    def bf16(state, bucket):  # DDP refuses it on CPUs by its name
        return default_hooks.bf16_compress_hook(state, bucket)

    for hook, sent in ((default_hooks.allreduce_hook, lambda g: g / 2),
                       (default_hooks.fp16_compress_hook, lambda g: g.half() / 2),
                       (bf16, lambda g: g.bfloat16() / 2)):
        got = run(dist.group.WORLD, hook, dist.group.WORLD)
        for g, first, second in zip(got, *each):
            assert torch.equal(g, (sent(first) + sent(second)).float()), hook.__name__
    states = {
        powerSGD_hook.powerSGD_hook: lambda group: powerSGD_hook.PowerSGDState(
            group, matrix_approximation_rank=2, start_powerSGD_iter=2),
        powerSGD_hook.batched_powerSGD_hook: lambda group: powerSGD_hook.PowerSGDState(
            group, start_powerSGD_iter=2),
        post_localSGD_hook.post_localSGD_hook: lambda group: post_localSGD_hook.PostLocalSGDState(
            process_group=group, subgroup=group, start_localSGD_iter=2),
        default_hooks.fp16_compress_wrapper(powerSGD_hook.powerSGD_hook): lambda group:
            powerSGD_hook.PowerSGDState(group, matrix_approximation_rank=1, start_powerSGD_iter=2),
        quantization_hooks.quantization_pertensor_hook: lambda group: group,
        quantization_hooks.quantization_perchannel_hook: lambda group: group,
    }
    cannot = []  # torch 2.13 on a CPU, whatever the backend
    for hook, state in states.items():
        try:
            wanted = run(gloo, hook, state(gloo))
        except (AssertionError, RuntimeError):
            cannot.append(hook.__name__)
            continue
        got = run(dist.group.WORLD, hook, state(dist.group.WORLD))
        assert all(map(torch.equal, got, wanted)), hook.__name__
    assert set(cannot) <= {"batched_powerSGD_hook", "quantization_pertensor_hook",
                           "quantization_perchannel_hook"}, cannot


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
    stock_hooks(rank, gloo)
    print(f"rank {rank}: losses {losses[0]:.4f} -> {losses[-1]:.4f}, equal to gloo bit for bit")
    dist.destroy_process_group()


launch.main(worker)
