"""The numbers that tests/pp_group/diloco_golden_test.cc is held to, from PyTorch alone.

Ten DiLoCo rounds of two groups on a small GPT: a plain nn.Module with autograd, torch.optim.AdamW
inside, torch.optim.SGD with Nesterov momentum outside, clip_grad_norm_ per block. Initial weights and
the order of the data are computed here from the documented formulas (Philox, SplitMix64, Feistel),
so nothing of pp_group is used. Once with exact outer deltas, once with deltas that cross in blocks
of 4 bits with error feedback.

Usage: diloco_golden.py            compares with the files, exit status 1 if they differ
       diloco_golden.py --rewrite  rewrites them
"""

import copy
import math
import pathlib
import sys

import torch
import torch.nn.functional as F

BLOCKS, WIDTH, HEADS, CONTEXT, VOCAB = 2, 16, 2, 16, 64
GROUPS, ROWS, ROUNDS, INNER = 2, 4, 10, 3
STEPS = ROUNDS * INNER
LR, MIN_LR, WARMUP, DECAY, CLIP, SEED = 1e-2, 0.1, 4, 0.1, 0.5, 11
OUTER_LR, OUTER_MOMENTUM = 0.7, 0.9
CORPUS_TOKENS = 20000
FOLDER = pathlib.Path(__file__).parent.parent / "golden"
MASK64 = (1 << 64) - 1


def splitmix64(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK64
    return x ^ (x >> 31)


def fold_seed(*values):
    h = 0
    for v in values:
        h = splitmix64(h ^ v)
    return h


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def uniform(key, i, purpose=3):
    block = philox((i >> 2 & 0xFFFFFFFF, i >> 34, purpose, 0), (key & 0xFFFFFFFF, key >> 32))
    return (block[i & 3] >> 8) * 2.0**-24


def normal(index, rows, cols, scale):
    key = fold_seed(SEED, index)
    values = [
        scale
        * math.sqrt(-2 * math.log(1 - uniform(key, 2 * i)))
        * math.cos(2 * math.pi * uniform(key, 2 * i + 1))
        for i in range(rows * cols)
    ]
    return torch.nn.Parameter(torch.tensor(values, dtype=torch.float32).view(rows, cols))


class Block(torch.nn.Module):
    def __init__(self, number):
        super().__init__()
        index, small = 2 + 8 * number, 0.02 / math.sqrt(2 * BLOCKS)
        self.norm1, self.norm2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.qkv = normal(index + 2, 3 * WIDTH, WIDTH, 0.02)
        self.out = normal(index + 3, WIDTH, WIDTH, small)
        self.up = normal(index + 6, 4 * WIDTH, WIDTH, 0.02)
        self.down = normal(index + 7, WIDTH, 4 * WIDTH, small)

    def forward(self, x):
        rows = x.shape[0]
        q, k, v = (
            part.view(rows, CONTEXT, HEADS, WIDTH // HEADS).transpose(1, 2)
            for part in F.linear(self.norm1(x), self.qkv).split(WIDTH, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + F.linear(y.transpose(1, 2).reshape(rows, CONTEXT, WIDTH), self.out)
        return x + F.linear(F.gelu(F.linear(self.norm2(x), self.up), approximate="tanh"), self.down)


class Gpt(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.token = normal(0, VOCAB, WIDTH, 0.02)
        self.position = normal(1, CONTEXT, WIDTH, 0.02)
        self.blocks = torch.nn.ModuleList(Block(b) for b in range(BLOCKS))
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.head = normal(2 + 8 * BLOCKS + 2, VOCAB, WIDTH, 0.02)

    def forward(self, ids, targets):
        x = self.token[ids] + self.position
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(F.linear(self.norm(x), self.head).view(-1, VOCAB), targets.flatten())

    def clip_groups(self):
        yield [self.token, self.position]
        for block in self.blocks:
            yield list(block.parameters())
        yield [*self.norm.parameters(), self.head]


def permute(index, size, key):
    half = ((size - 1).bit_length() + 1) // 2
    mask = (1 << half) - 1
    while True:
        left, right = index >> half, index & mask
        for step in range(4):
            left, right = right, left ^ (fold_seed(key, step, right) & mask)
        index = left << half | right
        if index < size:
            return index


def batch(tokens, step, group):
    train = len(tokens) - len(tokens) // 64
    windows = (train - 1) // CONTEXT
    rows = []
    for i in range(ROWS):
        row = (step * GROUPS + group) * ROWS + i
        begin = permute(row % windows, windows, fold_seed(SEED, row // windows)) * CONTEXT
        rows.append(tokens[begin : begin + CONTEXT + 1])
    rows = torch.tensor(rows)
    return rows[:, :-1], rows[:, 1:]


def rate(step):
    if step < WARMUP:
        return LR * (step + 1) / WARMUP
    progress = (step - WARMUP) / (STEPS - WARMUP)
    return LR * (MIN_LR + (1 - MIN_LR) * 0.5 * (1 + math.cos(math.pi * progress)))


def int4_b64(x):
    """x as a receiver has it after blocks of 64 in 4 bits: s = bf16(max / 7), q = rne(x / s)."""
    flat = x.flatten()
    blocks = F.pad(flat, (0, -len(flat) % 64)).view(-1, 64)
    s = (blocks.abs().amax(dim=1, keepdim=True) / 7).bfloat16().float()
    inverse = torch.where(s == 0, torch.zeros_like(s), 1 / s)
    codes = (blocks * inverse).clamp(-7, 7).round()
    return (codes * s).flatten()[: len(flat)].view(x.shape)


class ErrorFeedback:
    """Sends x + e through `codec` and keeps in e what that loses."""

    def __init__(self, codec):
        self.codec, self.residual = codec, 0.0

    def __call__(self, x):
        wanted = x + self.residual
        sent = self.codec(wanted)
        self.residual = wanted - sent
        return sent


def train(new_codec):
    torch.set_num_threads(1)
    tokens = [(splitmix64(i // 3) + i % 3) % VOCAB for i in range(CORPUS_TOKENS)]
    start = Gpt()
    outer = torch.optim.SGD(start.parameters(), lr=OUTER_LR, momentum=OUTER_MOMENTUM, nesterov=True)
    groups = [copy.deepcopy(start) for _ in range(GROUPS)]
    inner = []
    for model in groups:
        matrices = [p for p in model.parameters() if p.dim() > 1]
        vectors = [p for p in model.parameters() if p.dim() == 1]
        parts = [{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0}]
        inner.append(torch.optim.AdamW(parts, lr=LR, betas=(0.9, 0.95), eps=1e-8))
    codecs = [[new_codec() for _ in start.parameters()] for _ in range(GROUPS)]
    lines = []
    for step in range(STEPS):
        for g, (model, optimizer) in enumerate(zip(groups, inner)):
            optimizer.zero_grad()
            loss = model(*batch(tokens, step, g))
            loss.backward()
            for parameters in model.clip_groups():
                torch.nn.utils.clip_grad_norm_(parameters, CLIP)
            for part in optimizer.param_groups:
                part["lr"] = rate(step)
            optimizer.step()
            lines.append(f"{step + 1} {g} {loss.item():.6f}")
        if (step + 1) % INNER:
            continue
        with torch.no_grad():
            for i, (p, *replicas) in enumerate(
                zip(start.parameters(), *(m.parameters() for m in groups))
            ):
                deltas = [codecs[g][i](p - replica) for g, replica in enumerate(replicas)]
                p.grad = sum(deltas) / GROUPS
            outer.step()
            for model in groups:
                for p, replica in zip(start.parameters(), model.parameters()):
                    replica.copy_(p)
    return "".join(line + "\n" for line in lines)


RUNS = {
    "diloco.txt": lambda: lambda x: x,
    "diloco_int4_ef.txt": lambda: ErrorFeedback(int4_b64),
}


def main():
    failed = False
    for name, new_codec in RUNS.items():
        text, golden = train(new_codec), FOLDER / name
        if "--rewrite" in sys.argv[1:]:
            golden.write_text(text)
            continue
        worst = 0.0
        for ours, kept in zip(text.splitlines(), golden.read_text().splitlines(), strict=True):
            worst = max(worst, abs(float(ours.split()[2]) - float(kept.split()[2])))
        print(f"largest difference from {golden}: {worst:.2e} nat")
        failed |= worst > 1e-4
    return failed


if __name__ == "__main__":
    sys.exit(main())
