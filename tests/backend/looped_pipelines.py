"""Schedules of torch.distributed.pipelining with several stages per rank: activations and gradients
go from one rank to the same other one, and each has its own codec and its own states of it."""

import torch
import torch.distributed as dist

import launch
import longhaul

STAGES, MICROBATCHES, STEPS = 4, 4, 3
ROWS, WIDTH = 32, 768  # 8 rows per micro-batch: 6144 elements, above Options.min_elements
LOSS = torch.nn.functional.mse_loss


def blocks():
    torch.manual_seed(3)
    return [torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh(),
                                torch.nn.LayerNorm(WIDTH)) for _ in range(STAGES)]


def batch(step):
    torch.manual_seed(40 + step)
    return torch.randn(ROWS, WIDTH), torch.randn(ROWS, WIDTH)


class Boundary(torch.autograd.Function):
    """bf16+ef forward, with one residual per boundary and micro-batch; fp16 backward."""

    residuals = {}

    @staticmethod
    def forward(context, x, key):
        carried = x + Boundary.residuals.get(key, 0)
        sent = carried.bfloat16().float()
        Boundary.residuals[key] = (carried - sent).detach()
        return sent

    @staticmethod
    def backward(context, gradient):
        return gradient.half().float(), None


def in_one_process(placement):
    """Losses of each step's micro-batches, and the weights in the end. Between two stages of one
    rank nothing is encoded."""
    stages = blocks()
    Boundary.residuals.clear()
    parameters = [p for stage in stages for p in stage.parameters()]
    losses = []
    for step in range(STEPS):
        x, target = batch(step)
        for m, (h, wanted) in enumerate(zip(x.chunk(MICROBATCHES), target.chunk(MICROBATCHES))):
            for boundary, stage in enumerate(stages):
                h = stage(h)
                if placement[boundary] != (placement + placement[-1:])[boundary + 1]:
                    h = Boundary.apply(h, (boundary, m))
            loss = LOSS(h, wanted)
            loss.backward()
            losses.append(loss.item())
        descend(parameters, 1 / MICROBATCHES)
    return losses, [[p.detach() for p in stage.parameters()] for stage in stages]


def descend(parameters, scale=1.0):
    with torch.no_grad():
        for p in parameters:
            p -= 0.1 * (p.grad * scale)
            p.grad = None


def in_a_pipeline(schedule_class, indices, group, evaluate=False):
    """The same of the stages `indices` of this rank."""
    modules = {i: module for i, module in enumerate(blocks()) if i in indices}
    # Not before the first group with a codec is there: its stages are told apart all the same.
    from torch.distributed import pipelining

    stages = [pipelining.PipelineStage(module, i, STAGES, torch.device("cpu"), group=group)
              for i, module in modules.items()]
    schedule = getattr(pipelining, schedule_class)(stages, MICROBATCHES, loss_fn=LOSS)
    losses = []
    for step in range(STEPS):
        x, target = batch(step)
        inputs = [x] if 0 in indices else []
        of_step = []
        outputs = dict(target=target, losses=of_step) if STAGES - 1 in indices else {}
        if evaluate:
            schedule.eval(*inputs, **outputs)
            of_step.clear()
        schedule.step(*inputs, **outputs)
        losses += [loss.item() for loss in of_step]
        descend([p for module in modules.values() for p in module.parameters()])
    return losses, {i: list(module.parameters()) for i, module in modules.items()}


def each_kind_has_its_codec(name, schedule, placement, rank):
    indices = [i for i, holder in enumerate(placement) if holder == rank]
    group = dist.new_group([0, 1], backend="longhaul", pg_options=longhaul.Options(
        forward="int4-b64-h64", backward="int8-b64"))
    in_a_pipeline(schedule, indices, group)
    crossing = [i for i in indices if i + 1 < STAGES and placement[i + 1] != rank]
    returning = [i for i in indices if i > 0 and placement[i - 1] != rank]
    elements = ROWS // MICROBATCHES * WIDTH
    sent = {(c.codec, c.kind): c for c in longhaul.crossings(group) if c.sent}
    exact = sent.pop(("none", ""))  # what the stages exchange first, small
    assert exact.payload_bytes < 8192, (name, exact)
    wanted = {("int4-b64-h64", "activation"): (len(crossing), 4),
              ("int8-b64", "gradient"): (len(returning), 8)}
    assert set(sent) == {key for key, (stages, _) in wanted.items() if stages}, (name, sent)
    for key, row in sent.items():
        stages, bits = wanted[key]
        frames = STEPS * MICROBATCHES * stages
        assert row.tensors == frames, (name, row)
        assert row.payload_bytes == frames * launch.frame_bytes(elements, bits), (name, row)
    dist.destroy_process_group(group)


def equal_to_one_process(name, schedule, placement, rank, wanted, evaluate):
    indices = [i for i, holder in enumerate(placement) if holder == rank]
    group = dist.new_group([0, 1], backend="longhaul", pg_options=longhaul.Options(
        forward="bf16+ef", backward="fp16", ef_slots=MICROBATCHES))
    losses, weights = in_a_pipeline(schedule, indices, group, evaluate)
    if STAGES - 1 in indices:
        assert losses == wanted[0], (name, losses, wanted[0])
    for i, got in weights.items():
        for a, b in zip(got, wanted[1][i]):
            assert torch.equal(a, b), (name, i, (a - b).abs().max())
    dist.destroy_process_group(group)


def worker():
    rank, _ = launch.init()
    for name, schedule, placement, evaluations in (
            ("interleaved", "ScheduleInterleaved1F1B", [0, 1, 0, 1], (False, True)),
            # torch 2.13 cannot evaluate in a V: its stages hand gradients on that do not exist.
            ("zbv", "ScheduleZBVZeroBubble", [0, 1, 1, 0], (False,))):
        wanted = in_one_process(placement)
        each_kind_has_its_codec(name, schedule, placement, rank)
        for evaluate in evaluations:
            equal_to_one_process(name, schedule, placement, rank, wanted, evaluate)
        print(f"rank {rank}: ok {name}", flush=True)
    dist.destroy_process_group()


launch.main(worker)
