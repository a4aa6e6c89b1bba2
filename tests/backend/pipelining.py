"""torch.distributed.pipelining over two CPU ranks: gradients equal to one process with codecs off."""

import math

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

import launch
import longhaul

MICROBATCHES = 4
ROWS, WIDTH = 32, 768  # 8 rows per micro-batch: 6144 elements, above Options.min_elements


def blocks():
    torch.manual_seed(3)
    return [torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh(),
                                torch.nn.LayerNorm(WIDTH)) for _ in range(2)]


def batch():
    torch.manual_seed(4)
    return torch.randn(ROWS, WIDTH), torch.randn(ROWS, WIDTH)


def in_one_process(rows=ROWS // MICROBATCHES):
    """Gradients per stage: summed over micro-batches, then divided, as the schedules do."""
    stages = blocks()
    x, target = batch()
    for part, wanted in zip(x.split(rows), target.split(rows)):
        torch.nn.functional.mse_loss(stages[1](stages[0](part)), wanted).backward()
    return [[p.grad / MICROBATCHES for p in stage.parameters()] for stage in stages]


def in_a_pipeline(schedule_class, group, rank):
    module = blocks()[rank]
    stage = PipelineStage(module, rank, 2, torch.device("cpu"), group=group)
    schedule = schedule_class(stage, MICROBATCHES, loss_fn=torch.nn.functional.mse_loss)
    x, target = batch()
    losses = []
    if rank == 0:
        schedule.step(x)
    else:
        schedule.step(target=target, losses=losses)
        assert all(math.isfinite(loss.item()) for loss in losses) and len(losses) == MICROBATCHES
    return [p.grad for p in module.parameters()]


def by_hand(group, rank, rows):
    """Micro-batches of unlike sizes, which torch's schedules refuse: all forward, then all backward."""
    module = blocks()[rank]
    x, target = batch()
    if rank == 0:
        outs = [module(part) for part in x.split(rows)]
        sent = [dist.isend(out.detach(), 1, group=group) for out in outs]
        for out, work in zip(outs, sent):
            work.wait()
            gradient = torch.empty_like(out)
            dist.recv(gradient, 1, group=group)
            out.backward(gradient)
    else:
        received = [torch.empty(n, WIDTH) for n in rows]
        for part in received:
            dist.recv(part, 0, group=group)
        for part, wanted in zip(received, target.split(rows)):
            part.requires_grad_()
            torch.nn.functional.mse_loss(module(part), wanted).backward()
            dist.send(part.grad, 0, group=group)
    return [p.grad / len(rows) for p in module.parameters()]


def uneven(rank):
    """The last part has fewer elements than a codec is asked for, and goes exact."""
    rows = [11, 8, 8, 5]
    for got, want in zip(by_hand(dist.group.WORLD, rank, rows), in_one_process(rows)[rank]):
        assert torch.equal(got, want), (got - want).abs().max()
    group = dist.new_group([0, 1], backend="longhaul", pg_options=longhaul.Options(
        forward="int4-b64-h64", backward="int8-b64"))
    by_hand(group, rank, rows)
    bits = 8 if rank else 4
    exact, sent = sorted((c for c in longhaul.crossings(group) if c.sent), key=lambda c: c.codec != "none")
    assert sent.payload_bytes == sum(launch.frame_bytes(n * WIDTH, bits) for n in rows[:3]), sent
    assert exact.payload_bytes == rows[3] * WIDTH * 4, exact


def worker():
    rank, _ = launch.init()
    wanted = in_one_process()[rank]
    for schedule in (ScheduleGPipe, Schedule1F1B):
        for got, want in zip(in_a_pipeline(schedule, dist.group.WORLD, rank), wanted):
            assert torch.equal(got, want), f"{schedule.__name__}: {(got - want).abs().max()}"
        print(f"rank {rank}: {schedule.__name__}: gradients equal to one process", flush=True)

    compressed = dist.new_group([0, 1], backend="longhaul", pg_options=longhaul.Options(
        forward="int4-b64-h64", backward="int8-b64"))
    for got, want in zip(in_a_pipeline(Schedule1F1B, compressed, rank), wanted):
        assert not torch.equal(got, want)
        similarity = torch.nn.functional.cosine_similarity(got.flatten(), want.flatten(), dim=0)
        assert similarity > 0.9, similarity
    codec, bits = ("int8-b64", 8) if rank else ("int4-b64-h64", 4)
    exact, sent = sorted((c for c in longhaul.crossings(compressed) if c.sent),
                         key=lambda c: c.codec != "none")
    assert sent.codec == codec and sent.kind == ("gradient" if rank else "activation"), sent
    assert sent.payload_bytes == MICROBATCHES * launch.frame_bytes(
        ROWS // MICROBATCHES * WIDTH, bits), sent
    # Beside them: the shapes that the stages exchange first, exact and small.
    assert exact.codec == "none" and exact.payload_bytes < 4096, exact
    uneven(rank)
    dist.destroy_process_group()


launch.main(worker)
