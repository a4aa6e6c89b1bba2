"""Tokens per CPU second of longhaul's demo model in eager PyTorch on one thread.

The same mathematics as pp_group: learned positions, pre-norm, tanh GELU, no linear biases, untied
head, causal scaled_dot_product_attention, gradients clipped per block, fused AdamW. One batch of
16 rows per step.

Usage: eager_gpt.py SECONDS     prints one number
"""

import sys
import time

import torch
import torch.nn.functional as F

BLOCKS, WIDTH, HEADS, CONTEXT, VOCAB, ROWS = 8, 64, 4, 128, 256, 16


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = torch.nn.LayerNorm(WIDTH)
        self.qkv = torch.nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = torch.nn.Linear(WIDTH, WIDTH, bias=False)
        self.norm2 = torch.nn.LayerNorm(WIDTH)
        self.up = torch.nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = torch.nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        rows, context, _ = x.shape
        q, k, v = (
            part.view(rows, context, HEADS, WIDTH // HEADS).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).split(WIDTH, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(rows, context, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.token = torch.nn.Embedding(VOCAB, WIDTH)
        self.position = torch.nn.Embedding(CONTEXT, WIDTH)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(BLOCKS))
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.head = torch.nn.Linear(WIDTH, VOCAB, bias=False)

    def forward(self, ids, targets):
        x = self.token(ids) + self.position(torch.arange(CONTEXT))
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).view(-1, VOCAB), targets.reshape(-1))


def main():
    seconds = float(sys.argv[1])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = Gpt()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=3e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True
    )
    rows = torch.randint(0, VOCAB, (ROWS, CONTEXT + 1))
    ids, targets = rows[:, :-1].contiguous(), rows[:, 1:].contiguous()

    def step():
        optimizer.zero_grad()
        model(ids, targets).backward()
        for block in model.blocks:
            torch.nn.utils.clip_grad_norm_(block.parameters(), 1.0)
        optimizer.step()

    for _ in range(3):
        step()
    steps, start = 0, time.process_time()
    while time.process_time() - start < seconds:
        step()
        steps += 1
    print(f"{steps * ROWS * CONTEXT / (time.process_time() - start):.1f}", flush=True)


if __name__ == "__main__":
    main()
