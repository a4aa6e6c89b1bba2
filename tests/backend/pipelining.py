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


def in_one_process():
    """Gradients per stage: summed over micro-batches, then divided, as the schedules do."""
    stages = blocks()
    x, target = batch()
    for part, wanted in zip(x.chunk(MICROBATCHES), target.chunk(MICROBATCHES)):
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
    dist.destroy_process_group()


launch.main(worker)
