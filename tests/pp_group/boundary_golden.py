"""The numbers that boundary_golden_test.cc is held to, from PyTorch alone: thirty steps of a small GPT
whose only boundary, behind its first block, sends activations by AQ-SGD. The data are so few that each
sample comes once or twice.

Usage: boundary_golden.py            compares with the file, exit status 1 if it differs
       boundary_golden.py --rewrite  rewrites it
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "outer"))

import torch
import torch.nn.functional as F
from diloco_golden import inner_optimizer
from diloco_golden_gpt import CLIP, CONTEXT, ROWS, SEED, STEPS, VOCAB, Gpt, fold_seed, permute, rate, splitmix64

FILE = pathlib.Path(__file__).parents[1] / "golden" / "boundary_aqsgd.txt"
TOKENS, BITS = 1152, 4


class AqSgd:
    """Both ends hold m of a sample in half precision: the first time m = x, then m += Q(x - m)."""

    def __init__(self):
        self.m, self.again = {}, 0

    def __call__(self, sample, x):
        half = 2 ** (BITS - 1)
        if sample in self.m:
            m = self.m[sample].float()
            s = (x - m).abs().amax(dim=0).bfloat16().float()
            inverse = torch.where(s == 0, torch.zeros_like(s), 1 / s) * half
            codes = ((x - m) * inverse).clamp(-half, half - 1).round()
            self.m[sample] = (m + codes * (s / half)).half()
            self.again += 1
        else:
            self.m[sample] = x.half()
        return self.m[sample].float()


def windows_of(step, tokens):
    windows = (len(tokens) - len(tokens) // 64 - 1) // CONTEXT
    rows = range(step * ROWS, (step + 1) * ROWS)
    return [permute(r % windows, windows, fold_seed(SEED, r // windows)) for r in rows]


def train():
    torch.set_num_threads(1)
    tokens = [(splitmix64(i // 3) + i % 3) % VOCAB for i in range(TOKENS)]
    model, boundary, lines = Gpt(), AqSgd(), []
    optimizer = inner_optimizer("adamw", model)
    for step in range(STEPS):
        samples = windows_of(step, tokens)
        rows = torch.tensor([tokens[w * CONTEXT : (w + 1) * CONTEXT + 1] for w in samples])
        x = model.blocks[0](model.token[rows[:, :-1]] + model.position)
        with torch.no_grad():
            received = torch.stack([boundary(w, row) for w, row in zip(samples, x)])
        x = model.blocks[1](x + (received - x).detach())  # the gradient goes straight through
        loss = F.cross_entropy(F.linear(model.norm(x), model.head).view(-1, VOCAB), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        lines.append(f"{step + 1} {loss.item():.6f}")
        for parameters in model.clip_groups():
            torch.nn.utils.clip_grad_norm_(parameters, CLIP)
        for part in optimizer.param_groups:
            part["lr"] = rate(step)
        optimizer.step()
    assert boundary.again == STEPS * ROWS - len(boundary.m) > 40, "no sample came again"
    return "".join(line + "\n" for line in lines)


def main():
    text = train()
    if "--rewrite" in sys.argv[1:]:
        FILE.write_text(text)
        return False
    pairs = zip(text.splitlines(), FILE.read_text().splitlines(), strict=True)
    worst = max(abs(float(ours.split()[1]) - float(kept.split()[1])) for ours, kept in pairs)
    print(f"largest difference from {FILE}: {worst:.2e} nat")
    return worst > 1e-4


if __name__ == "__main__":
    sys.exit(main())
