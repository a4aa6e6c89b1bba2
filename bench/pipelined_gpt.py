"""The model of eager_gpt.py under torch.distributed.pipelining, a stage a process: tokens per second of
wall time, printed by rank 0. To be started by torchrun or `longhaul launch`.

Usage: pipelined_gpt.py --backend gloo|longhaul [--forward CODEC --backward CODEC] [--device cuda] [...]
       pipelined_gpt.py --backend gloo --groups G --inner-steps H [...]

With --groups it is PP x DiLoCo, ranks as longhaul has them (rank = group * stages + stage): every H steps the
groups average their deltas by all_reduce and step with Nesterov. Rank 0 then prints one JSON object: the
median seconds of a step without that, and of one with it.

gloo sends what lies in host memory, so with it a stage takes its activations from there and leaves them
there. The group "longhaul" takes them where they are."""

import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

import eager_gpt


class ThroughTheHost(torch.nn.Module):
    def __init__(self, stage, device, dtype):
        super().__init__()
        self.stage, self.device, self.dtype = stage, device, dtype

    def forward(self, x):
        with eager_gpt.in_dtype(self.device, self.dtype):
            y = self.stage(x.to(self.device))
        return y if self.stage.last else y.cpu()  # the loss is taken where the logits are


class WhereItIs(torch.nn.Module):
    def __init__(self, stage, device, dtype):
        super().__init__()
        self.stage, self.device, self.dtype = stage, device, dtype

    def forward(self, x):
        with eager_gpt.in_dtype(self.device, self.dtype):
            return self.stage(x)


def init(arguments):
    if arguments.backend == "gloo":
        dist.init_process_group("gloo")
        return
    import longhaul

    dist.init_process_group("longhaul", pg_options=longhaul.Options(
        interface=arguments.interface, forward=arguments.forward, backward=arguments.backward))


class Diloco:
    """The outer step of one stage with its peers in all groups."""

    def __init__(self, module, peers, groups):
        self.module, self.peers, self.groups = module, peers, groups
        self.start = torch.nn.utils.parameters_to_vector(module.parameters()).detach().clone().requires_grad_()
        self.optimizer = torch.optim.SGD([self.start], lr=0.7, momentum=0.9, nesterov=True)

    def step(self):
        delta = self.start.detach() - torch.nn.utils.parameters_to_vector(self.module.parameters()).detach()
        dist.all_reduce(delta, group=self.peers)
        self.start.grad = delta / self.groups
        self.optimizer.step()
        torch.nn.utils.vector_to_parameters(self.start.detach(), self.module.parameters())


def subgroup(ranks_of_all):
    """The one of these groups that this rank is of; every rank makes all of them, in one order."""
    made = [(ranks, dist.new_group(ranks)) for ranks in ranks_of_all]
    return next(group for ranks, group in made if dist.get_rank() in ranks)


def read_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", choices=["gloo", "longhaul"], required=True)
    parser.add_argument("--forward", default="none")
    parser.add_argument("--backward", default="none")
    parser.add_argument("--interface", default="lo")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--microbatches", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warm-up", type=int, default=3)
    parser.add_argument("--shape", type=json.loads, default={})
    parser.add_argument("--groups", type=int, default=1)
    parser.add_argument("--inner-steps", type=int, default=0)
    return parser.parse_args()


def time_steps(step, steps, tokens, rank):
    """Prints tokens per second."""
    dist.barrier()
    start = time.perf_counter()
    for _ in range(steps):
        step()
    dist.barrier()
    took = time.perf_counter() - start
    if rank == 0:
        print(f"{steps * tokens / took:.1f}", flush=True)


def time_diloco(step, steps, inner_steps, diloco):
    """Prints the medians of steps without and with an outer step."""
    plain, outer = [], []
    for number in range(1, steps + 1):
        start = time.perf_counter()
        step()
        meets = number % inner_steps == 0
        if meets:
            diloco.step()
        (outer if meets else plain).append(time.perf_counter() - start)
    if dist.get_rank() == 0:
        print(json.dumps({"step_s": statistics.median(plain), "outer_step_s": statistics.median(outer)}), flush=True)


def main():
    arguments = read_arguments()
    shape = eager_gpt.Shape(**arguments.shape)
    init(arguments)
    groups = arguments.groups
    stages = dist.get_world_size() // groups
    rank = dist.get_rank() % stages  # within the pipeline
    pipeline = peers = None
    if groups > 1:
        pipeline = subgroup([[g * stages + s for s in range(stages)] for g in range(groups)])
        peers = subgroup([[g * stages + s for g in range(groups)] for s in range(stages)])
    device = arguments.device
    if device == "cuda:*":
        device = f"cuda:{int(os.environ['LOCAL_RANK']) % torch.cuda.device_count()}"
    torch.manual_seed(1)
    module = eager_gpt.Stage(shape, rank, stages).to(device)
    staged = arguments.backend == "gloo"
    boundary = torch.device("cpu" if staged else device)
    wrapped = (ThroughTheHost if staged else WhereItIs)(module, device, arguments.dtype)
    schedule = Schedule1F1B(PipelineStage(wrapped, rank, stages, boundary, group=pipeline),
                            arguments.microbatches,
                            loss_fn=lambda y, t: eager_gpt.loss(y, t.to(y.device)))
    optimizer = eager_gpt.new_optimizer(module)
    ids, targets = (part.to(boundary) for part in eager_gpt.batch(shape))

    def step():
        if rank == 0:
            schedule.step(ids)
        elif rank == stages - 1:
            schedule.step(target=targets)
        else:
            schedule.step()
        eager_gpt.update(module, optimizer)
        eager_gpt.await_device(device)

    for _ in range(arguments.warm_up):
        step()
    if groups > 1:
        time_diloco(step, arguments.steps, arguments.inner_steps, Diloco(module, peers, groups))
    else:
        time_steps(step, arguments.steps, shape.tokens, rank)
    dist.destroy_process_group()


main()
