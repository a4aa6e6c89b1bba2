"""What diloco_golden.py trains: a small GPT, its data, its rate, and codecs as PyTorch computes them.

Initial weights and the order of the data come from the documented formulas (Philox, SplitMix64,
Feistel), so nothing of pp_group is used.
"""

import math

import torch
import torch.nn.functional as F

BLOCKS, WIDTH, HEADS, CONTEXT, VOCAB = 2, 16, 2, 16, 64
ROWS, STEPS = 4, 30
LR, MIN_LR, WARMUP, DECAY, CLIP, SEED = 1e-2, 0.1, 4, 0.1, 0.5, 11
CORPUS_TOKENS = 20000
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


def batch(tokens, step, group, groups):
    train = len(tokens) - len(tokens) // 64
    windows = (train - 1) // CONTEXT
    rows = []
    for i in range(ROWS):
        row = (step * groups + group) * ROWS + i
        begin = permute(row % windows, windows, fold_seed(SEED, row // windows)) * CONTEXT
        rows.append(tokens[begin : begin + CONTEXT + 1])
    rows = torch.tensor(rows)
    return rows[:, :-1], rows[:, 1:]


def rate(step, peak=LR):
    if step < WARMUP:
        return peak * (step + 1) / WARMUP
    progress = (step - WARMUP) / (STEPS - WARMUP)
    return peak * (MIN_LR + (1 - MIN_LR) * 0.5 * (1 + math.cos(math.pi * progress)))


def int4_b64(x):
    """x as a receiver has it after blocks of 64 in 4 bits: s = bf16(max / 7), q = rne(x / s)."""
    flat = x.flatten()
    blocks = F.pad(flat, (0, -len(flat) % 64)).view(-1, 64)
    s = (blocks.abs().amax(dim=1, keepdim=True) / 7).bfloat16().float()
    inverse = torch.where(s == 0, torch.zeros_like(s), 1 / s)
    codes = (blocks * inverse).clamp(-7, 7).round()
    return (codes * s).flatten()[: len(flat)].view(x.shape)


class ErrorFeedback:
    """Sends decay e + x through `codec` and keeps in e what that loses."""

    def __init__(self, codec, decay=1.0):
        self.codec, self.decay, self.residual = codec, decay, 0.0

    def __call__(self, x):
        wanted = x + self.decay * self.residual
        sent = self.codec(wanted)
        self.residual = wanted - sent
        return sent


def topk(flat, k=256, chunk=4096, dtype=torch.bfloat16):
    """The k largest of each chunk, rounded; of a last chunk of c elements round(k c / chunk)."""
    sent = torch.zeros_like(flat)
    for begin in range(0, len(flat), chunk):
        part = flat[begin : begin + chunk]
        keep = max(1, (2 * k * len(part) + chunk) // (2 * chunk))
        kept = part.abs().sort(descending=True, stable=True).indices[:keep]
        sent[begin + kept] = part[kept].to(dtype).float()
    return sent


def one_bit(flat, block=256):
    """The sign of each value (of 0: +) times the block's mean of absolute values in bfloat16."""
    sent = torch.empty_like(flat)
    for begin in range(0, len(flat), block):
        part = flat[begin : begin + block]
        scale = part.abs().mean().bfloat16().float()
        sent[begin : begin + block] = torch.where(part >= 0, scale, -scale)
    return sent


def dct_matrix(n):
    """The orthonormal DCT-II."""
    i = torch.arange(n, dtype=torch.float64)
    m = torch.cos(math.pi / n * (i[None, :] + 0.5) * i[:, None]) * math.sqrt(2 / n)
    m[0] /= math.sqrt(2)
    return m.float()


def dct_top32(flat, side=64):
    """Rows of 64 in tiles of 64 x 64: the 32 largest coefficients of a tile's DCT in bfloat16 (of c
    elements round(32 c / 4096)), transformed back."""
    rows = flat.view(-1, side)
    sent = torch.empty_like(rows)
    for begin in range(0, len(rows), side):
        tile = rows[begin : begin + side]
        left, right = dct_matrix(len(tile)), dct_matrix(side)
        all_of_it = (left @ tile @ right.T).flatten()
        kept = all_of_it.abs().sort(descending=True, stable=True).indices
        kept = kept[: max(1, (2 * 32 * tile.numel() + side * side) // (2 * side * side))]
        few = torch.zeros_like(all_of_it)
        few[kept] = all_of_it[kept].bfloat16().float()
        sent[begin : begin + side] = left.T @ few.view_as(tile) @ right
    return sent.flatten()


def laid_out(tensors):
    """One behind the other, each at a multiple of 64 elements, zeros between them."""
    return torch.cat([F.pad(t.flatten(), (0, -t.numel() % 64)) for t in tensors])


def taken_apart(flat, like):
    parts, at = [], 0
    for t in like:
        parts.append(flat[at : at + t.numel()].view(t.shape))
        at += t.numel() + -t.numel() % 64
    return parts


def in_order(model):
    """The parameters as they lie in a stage's flat buffer."""
    yield from (model.token, model.position)
    for b in model.blocks:
        yield from (b.norm1.weight, b.norm1.bias, b.qkv, b.out, b.norm2.weight, b.norm2.bias, b.up, b.down)
    yield from (model.norm.weight, model.norm.bias, model.head)
