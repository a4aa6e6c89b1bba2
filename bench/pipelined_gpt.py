"""The model of eager_gpt.py under torch.distributed.pipelining, a stage a process: tokens per second of
wall time, printed by rank 0. To be started by torchrun.

Usage: pipelined_gpt.py --backend gloo|longhaul [--forward CODEC --backward CODEC] [--device cuda] [...]

gloo sends what lies in host memory, so with it a stage takes its activations from there and leaves them
there. The group "longhaul" takes them where they are."""

import argparse
import json
import os
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


def main():
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
    arguments = parser.parse_args()
    shape = eager_gpt.Shape(**arguments.shape)
    init(arguments)
    rank, stages = dist.get_rank(), dist.get_world_size()
    device = arguments.device
    if device == "cuda:*":
        device = f"cuda:{int(os.environ['LOCAL_RANK']) % torch.cuda.device_count()}"
    torch.manual_seed(1)
    module = eager_gpt.Stage(shape, rank, stages).to(device)
    staged = arguments.backend == "gloo"
    boundary = torch.device("cpu" if staged else device)
    wrapped = (ThroughTheHost if staged else WhereItIs)(module, device, arguments.dtype)
    schedule = Schedule1F1B(PipelineStage(wrapped, rank, stages, boundary),
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
    dist.barrier()
    start = time.perf_counter()
    for _ in range(arguments.steps):
        step()
    dist.barrier()
    took = time.perf_counter() - start
    if rank == 0:
        print(f"{arguments.steps * shape.tokens / took:.1f}", flush=True)
    dist.destroy_process_group()


main()
