"""Tensors on a GPU, two ranks that share it: codecs, streams, DistributedDataParallel and
torch.distributed.pipelining give what they give on the host or in one process."""

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.nn.parallel import DistributedDataParallel

import launch

MICROBATCHES, ROWS, WIDTH = 4, 32, 768
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def exchanged(x, group, rank):
    """What rank 1 gets of rank 0's x, and rank 0 of rank 1's."""
    got = torch.zeros_like(x)
    if rank == 0:
        dist.send(x, 1, group=group)
        dist.recv(got, 1, group=group)
    else:
        dist.recv(got, 0, group=group)
        dist.send(x, 0, group=group)
    return got


def check_codecs(rank):
    """Values, and the errors that senders measure, are those of host tensors."""
    import longhaul

    torch.manual_seed(7)
    x = torch.randn(64, 256)
    for forward, backward in (("none", "none"), ("int4-b64-h64", "int8-b64")):
        errors, received = [], []
        for device in ("cpu", "cuda"):
            group = dist.new_group([0, 1], backend="longhaul", pg_options=longhaul.Options(
                forward=forward, backward=backward, nmse_every=1))
            got = [exchanged(x.to(device, dtype), group, rank) for dtype in DTYPES]
            assert all(part.device.type == device for part in got)
            received.append([part.cpu() for part in got])
            sent, = (c for c in longhaul.crossings(group) if c.sent)
            errors.append((sent.nmse_samples, sent.nmse_sum, sent.nmse_max))
        assert errors[1] == errors[0], (forward, errors)
        for dtype, want, got in zip(DTYPES, *received):
            assert torch.equal(got, want), (forward, dtype)
            assert torch.equal(want, x.to(dtype)) == (forward == "none"), (forward, dtype)


def check_streams(rank):
    """What a stream still has to do is in the tensor that is sent, and in what is received into."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.full((2048, 2048), 1 / 2048, device="cuda")
        product = x
        for _ in range(20):
            product = product @ x
        total = exchanged(product, dist.group.WORLD, rank) + 1
    stream.synchronize()
    assert torch.equal(total, torch.full_like(total, 1 + 1 / 2048))
    dist.all_reduce(total)
    assert torch.equal(total, torch.full_like(total, 2 + 2 / 2048))


def check_ddp(rank):
    torch.manual_seed(5 + rank)  # DDP must broadcast rank 0's weights
    model = torch.nn.Sequential(torch.nn.Linear(20, 300), torch.nn.ReLU(), torch.nn.Linear(300, 5)).cuda()
    ddp = DistributedDataParallel(model, device_ids=[0], bucket_cap_mb=0.01)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    torch.manual_seed(100 + rank)
    x, classes = torch.randn(16, 20, device="cuda"), torch.randint(5, (16,), device="cuda")
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(ddp(x), classes)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0], losses
    weights = torch.cat([p.detach().flatten() for p in model.parameters()])
    assert torch.equal(exchanged(weights, dist.group.WORLD, rank), weights)


def check_pipeline(rank):
    torch.manual_seed(3)
    stages = [torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh(),
                                  torch.nn.LayerNorm(WIDTH)).cuda() for _ in range(2)]
    x, target = torch.randn(ROWS, WIDTH, device="cuda"), torch.randn(ROWS, WIDTH, device="cuda")
    for part, wanted in zip(x.chunk(MICROBATCHES), target.chunk(MICROBATCHES)):
        torch.nn.functional.mse_loss(stages[1](stages[0](part)), wanted).backward()
    want = [p.grad / MICROBATCHES for p in stages[rank].parameters()]
    for p in stages[rank].parameters():
        p.grad = None
    stage = PipelineStage(stages[rank], rank, 2, torch.device("cuda"), group=dist.group.WORLD)
    schedule = Schedule1F1B(stage, MICROBATCHES, loss_fn=torch.nn.functional.mse_loss)
    schedule.step(x) if rank == 0 else schedule.step(target=target)
    for p, grad in zip(stages[rank].parameters(), want):
        assert torch.equal(p.grad, grad), (p.grad - grad).abs().max()


def worker():
    torch.cuda.set_device(0)
    rank, _ = launch.init()
    for check in (check_codecs, check_streams, check_ddp, check_pipeline):
        check(rank)
        print(f"rank {rank}: {check.__name__[6:]}: as it should be", flush=True)
    dist.destroy_process_group()


if not torch.cuda.is_available():
    launch.skip(f"torch {torch.__version__} sees no GPU")
launch.main(worker, agent=True)  # a fork of a process that has met CUDA cannot use it
