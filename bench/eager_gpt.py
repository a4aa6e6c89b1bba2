"""longhaul's `gpt` in eager PyTorch: learned positions, pre-norm, tanh GELU, no linear biases, untied head,
causal scaled_dot_product_attention, gradients clipped per block, fused AdamW.

Usage: eager_gpt.py SECONDS            tokens per CPU second of the demo's model on one thread: one number
       eager_gpt.py SECONDS --wall [--device cuda] [--dtype bfloat16] [--shape JSON] [--compile]
                                       tokens per second of wall time, all threads that torch is given;
                                       --compile: of the model by torch.compile
"""

import argparse
import contextlib
import dataclasses
import json
import time

import torch
import torch.nn.functional as F


@dataclasses.dataclass(frozen=True)
class Shape:
    blocks: int = 8
    width: int = 64
    heads: int = 4
    context: int = 128
    vocab: int = 256
    rows: int = 16  # of a step

    @property
    def tokens(self):
        return self.rows * self.context


class Block(torch.nn.Module):
    def __init__(self, shape):
        super().__init__()
        width = shape.width
        self.heads = shape.heads
        self.norm1 = torch.nn.LayerNorm(width)
        self.qkv = torch.nn.Linear(width, 3 * width, bias=False)
        self.out = torch.nn.Linear(width, width, bias=False)
        self.norm2 = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, 4 * width, bias=False)
        self.down = torch.nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        rows, context, width = x.shape
        q, k, v = (
            part.view(rows, context, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).split(width, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(rows, context, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Stage(torch.nn.Module):
    """Stage `index` of `stages` equal ones: ids to activations, activations to such, or to logits."""

    def __init__(self, shape, index=0, stages=1):
        super().__init__()
        self.first, self.last = index == 0, index == stages - 1
        if self.first:
            self.token = torch.nn.Embedding(shape.vocab, shape.width)
            self.position = torch.nn.Embedding(shape.context, shape.width)
        self.blocks = torch.nn.ModuleList(Block(shape) for _ in range(shape.blocks // stages))
        if self.last:
            self.norm = torch.nn.LayerNorm(shape.width)
            self.head = torch.nn.Linear(shape.width, shape.vocab, bias=False)

    def forward(self, x):
        if self.first:
            x = self.token(x) + self.position(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)) if self.last else x


def loss(logits, targets):
    return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def batch(shape):
    rows = torch.randint(0, shape.vocab, (shape.rows, shape.context + 1))
    return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


def new_optimizer(stage):
    return torch.optim.AdamW(
        stage.parameters(), lr=3e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True
    )


def update(stage, optimizer):
    for block in stage.blocks:
        torch.nn.utils.clip_grad_norm_(block.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()


def in_dtype(device, dtype):
    """Products in bfloat16, parameters in float32; nothing for float32."""
    if dtype == "float32":
        return contextlib.nullcontext()
    return torch.autocast(torch.device(device).type, getattr(torch, dtype))


def await_device(device):
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("seconds", type=float)
    parser.add_argument("--wall", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--shape", type=json.loads, default={})
    parser.add_argument("--compile", action="store_true")
    arguments = parser.parse_args()
    shape, device = Shape(**arguments.shape), arguments.device
    clock = time.perf_counter if arguments.wall else time.process_time
    if not arguments.wall:
        torch.set_num_threads(1)
    torch.manual_seed(1)
    model = Stage(shape).to(device)
    optimizer = new_optimizer(model)
    forward = torch.compile(model) if arguments.compile else model
    ids, targets = (part.to(device) for part in batch(shape))

    def step():
        with in_dtype(device, arguments.dtype):
            loss(forward(ids), targets).backward()
        update(model, optimizer)
        await_device(device)

    for _ in range(3):
        step()
    steps, start = 0, clock()
    while clock() - start < arguments.seconds:
        step()
        steps += 1
    print(f"{steps * shape.tokens / (clock() - start):.1f}", flush=True)


if __name__ == "__main__":
    main()
