"""What stages of torch.distributed.pipelining hand on beside one float tensor, over two CPU ranks with
codecs on: tuples with integers and masks, bfloat16, outputs that nobody uses, a batch that does not
divide. What is exact must be exact; what is encoded is what one process computes with the codec."""

import datetime

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

import launch
import longhaul

MICROBATCHES, ROWS, WIDTH = 4, 8, 640  # 5120 elements a micro-batch's activation: above min_elements


class First(torch.nn.Module):
    """Hands on an activation, the positions and a mask."""

    def __init__(self, dtype):
        super().__init__()
        torch.manual_seed(3)
        self.layer = torch.nn.Linear(WIDTH, WIDTH, dtype=dtype)

    def forward(self, x):
        positions = torch.arange(x.shape[0] * WIDTH).view(x.shape[0], WIDTH)
        return torch.tanh(self.layer(x)), positions, positions % 3 == 0


class Second(torch.nn.Module):
    def __init__(self, dtype):
        super().__init__()
        torch.manual_seed(4)
        self.layer = torch.nn.Linear(WIDTH, WIDTH, dtype=dtype)

    def forward(self, h, positions, mask):
        exact = torch.arange(h.shape[0] * WIDTH).view_as(positions)
        # torch asks for the shapes of outputs first, with tensors of its own.
        self.exact = torch.equal(positions, exact) and torch.equal(mask, exact % 3 == 0)
        return self.layer(h * mask)


class Ignores(torch.nn.Module):
    """Uses nothing of what it gets: its input's gradient is none, or zeros."""

    def __init__(self, dtype):
        super().__init__()
        torch.manual_seed(4)
        self.layer = torch.nn.Linear(WIDTH, WIDTH, dtype=dtype)

    def forward(self, h, positions, mask):
        return self.layer(torch.ones_like(h)) + 0 * h


class Rounded(torch.autograd.Function):
    """fp16 on the way forward, bf16 on the way back, as the codecs of that name."""

    @staticmethod
    def forward(context, x):
        return x.half().to(x.dtype)

    @staticmethod
    def backward(context, gradient):
        return gradient.bfloat16().to(gradient.dtype)


def loss(got, wanted):
    return torch.nn.functional.mse_loss(got.float(), wanted)


def batch(dtype):
    torch.manual_seed(5)
    return (torch.randn(MICROBATCHES * ROWS, WIDTH).to(dtype), torch.randn(MICROBATCHES * ROWS, WIDTH))


def in_one_process(second, dtype):
    stages = [First(dtype), second(dtype)]
    losses = []
    x, target = batch(dtype)
    for part, wanted in zip(x.chunk(MICROBATCHES), target.chunk(MICROBATCHES)):
        h, positions, mask = stages[0](part)
        value = loss(stages[1](Rounded.apply(h), positions, mask), wanted)
        value.backward()
        losses.append(value.item())
    return losses, [[p.grad / MICROBATCHES for p in stage.parameters()] for stage in stages]


def in_a_pipeline(rank, schedule_class, second, dtype, group):
    module = First(dtype) if rank == 0 else second(dtype)
    stage = PipelineStage(module, rank, 2, torch.device("cpu"), group=group)
    schedule = schedule_class(stage, MICROBATCHES, loss_fn=loss)
    x, target = batch(dtype)
    losses = []
    if rank == 0:
        schedule.step(x)
    else:
        schedule.step(target=target, losses=losses)
        assert second is Ignores or module.exact
    return [value.item() for value in losses], [p.grad for p in module.parameters()]


def equal_to_one_process(rank, group):
    for dtype in (torch.float32, torch.bfloat16):
        for second in (Second, Ignores):
            losses, gradients = in_one_process(second, dtype)
            for schedule in (ScheduleGPipe, Schedule1F1B):
                got_losses, got = in_a_pipeline(rank, schedule, second, dtype, group)
                where = (dtype, second.__name__, schedule.__name__)
                assert rank == 0 or got_losses == losses, (where, got_losses, losses)
                for a, b in zip(got, gradients[rank]):
                    assert torch.isfinite(a).all() and torch.equal(a, b), (where, (a - b).abs().max())
            print(f"rank {rank}: ok {dtype} {second.__name__}", flush=True)


def only_floats_were_encoded(rank, group):
    sent = {(c.codec, c.kind) for c in longhaul.crossings(group) if c.sent and c.tensors}
    want = {("fp16", "activation")} if rank == 0 else {("bf16", "gradient")}
    assert {row for row in sent if row[0] != "none"} == want, sent


def batch_that_does_not_divide(rank, group):
    """torch cuts 8 rows into 3, 3 and 2, and its stages keep the first's shape: the receiver names both
    sizes; the sender, which waits for a gradient that never comes, is told in time. Never a hang."""
    module = torch.nn.Linear(WIDTH, WIDTH)
    stage = PipelineStage(module, rank, 2, torch.device("cpu"), group=group)
    schedule = ScheduleGPipe(stage, 3, loss_fn=loss)
    x = torch.randn(8, WIDTH)
    if rank == 0:
        launch.expect_error(dist.DistBackendError, ["from rank 1", "within the timeout of 3s"],
                            lambda: schedule.step(x))
    else:
        launch.expect_error(ValueError, ["rank 1 posted f32[3,640]", "rank 0 sent f32[2,640]"],
                            lambda: schedule.step(target=x))


def worker():
    rank, _ = launch.init()
    group = dist.new_group([0, 1], backend="longhaul", timeout=launch.TIMEOUT,
                           pg_options=longhaul.Options(forward="fp16", backward="bf16"))
    equal_to_one_process(rank, group)
    only_floats_were_encoded(rank, group)
    batch_that_does_not_divide(rank, dist.new_group([0, 1], timeout=datetime.timedelta(seconds=3)))
    x = torch.ones(2)
    dist.all_reduce(x)
    assert x[0] == 2
    dist.destroy_process_group()


launch.main(worker)
