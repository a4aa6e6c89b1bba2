"""The numbers that tests/pp_group/outer/diloco_golden_test.cc is held to, from PyTorch alone.

Thirty steps, ten rounds or so, of two or four groups on a small GPT by each outer algorithm: a plain
nn.Module with autograd, torch.optim.AdamW inside, torch.optim.SGD with Nesterov momentum outside,
clip_grad_norm_ per block, on the model and data of diloco_golden_gpt.py.

Usage: diloco_golden.py [FILE..]            compares with the files, exit status 1 if they differ
       diloco_golden.py --rewrite [FILE..]  rewrites them
Names of files take these alone.
"""

import copy
import math
import pathlib
import sys

import torch
from diloco_golden_gpt import (BLOCKS, CLIP, CORPUS_TOKENS, DECAY, LR, SEED, STEPS, VOCAB,
                               ErrorFeedback, Gpt, batch, fold_seed, in_order, int4_b64, laid_out,
                               rate, splitmix64, taken_apart, topk)
from diloco_golden_gradients import Clipping, DataParallelSgd, Decoupled, OneBitAdam, PowerSgd, Swarm

FOLDER = pathlib.Path(__file__).parents[2] / "golden"


class Outer:
    """Nesterov over what the groups have moved, by torch.optim.SGD."""

    def __init__(self, start, lr, momentum):
        self.start = [p.detach().clone().requires_grad_() for p in in_order(start)]
        self.sgd = torch.optim.SGD(self.start, lr=lr, momentum=momentum, nesterov=momentum > 0)

    def deltas(self, model):
        return [s.detach() - p.detach() for s, p in zip(self.start, in_order(model))]

    def step(self, average, which=None):
        for i, p in enumerate(self.start):
            p.grad = average[i].clone() if which is None or i in which else None
        self.sgd.step()


def mean(lists):
    return [sum(parts) / len(lists) for parts in zip(*lists)]


class Diloco:
    groups, inner_steps, lr, momentum, new_codec = 2, 3, 0.7, 0.9, staticmethod(lambda: lambda x: x)
    inner, mean_over, peak = "adamw", "all", LR

    def begin(self, start):
        self.outer = Outer(start, self.lr, self.momentum)
        self.codecs = [[self.new_codec() for _ in self.outer.start] for _ in range(self.groups)]

    def average(self, models):
        return mean([[c(d) for c, d in zip(self.codecs[g], self.outer.deltas(m))] for g, m in enumerate(models)])

    def after(self, step, models):
        if step % self.inner_steps and step != STEPS:
            return
        self.outer.step(self.average(models))
        for model in models:
            for p, start in zip(in_order(model), self.outer.start):
                p.copy_(start)


class FourBits(Diloco):
    new_codec = staticmethod(lambda: ErrorFeedback(int4_b64))


class Sparse(Diloco):
    """TopK over chunks of the flat buffer, rate 1, no momentum, error feedback that decays."""

    lr, momentum = 1.0, 0.0

    def begin(self, start):
        super().begin(start)
        self.flat_codecs = [ErrorFeedback(topk, 0.95) for _ in range(self.groups)]

    def average(self, models):
        sent = [c(laid_out(self.outer.deltas(m))) for c, m in zip(self.flat_codecs, models)]
        count = len(models) if self.mean_over == "all" else sum((x != 0).float() for x in sent).clamp(min=1)
        return taken_apart(sum(sent) / count, self.outer.start)


class SparseOverSenders(Sparse):
    mean_over = "senders"


class Streaming(Diloco):
    """Two fragments in turn, each applied one step after it was taken, half of it mixed in."""

    inner_steps, lr, overlap, mix, fragments = 4, 0.4, 1, 0.5, 2

    def begin(self, start):
        super().begin(start)
        self.flying = None
        blocks = [2 + 8 * b + i for b in range(BLOCKS) for i in range(8)]
        of = {i: (i - 2) // 8 % self.fragments if i in blocks else 0 for i in range(len(self.outer.start))}
        self.parts = [[i for i in of if of[i] == f] for f in range(self.fragments)]

    def land(self, average, fragment, models, mix):
        self.outer.step(average, self.parts[fragment])
        for model in models:
            for i, (p, start) in enumerate(zip(in_order(model), self.outer.start)):
                if i in self.parts[fragment]:
                    p.copy_(mix * p + (1 - mix) * start)

    def after(self, step, models):
        apart = self.inner_steps // self.fragments
        due = self.flying if self.flying and (step == self.flying[0] or step == STEPS) else None
        begun = self.average(models)
        if due:
            self.land(due[1], due[2], models, self.mix)
            self.flying = None
        if step == STEPS:
            for fragment in range(self.fragments):
                self.land(begun, fragment, models, 0)
        elif step % apart == 0:
            self.flying = (step + self.overlap, begun, step % self.inner_steps // apart)


class Late(Streaming):
    """DiLoCoX's delay: the average of a round moves the start when the next round's is taken."""

    inner_steps, lr, overlap, mix, fragments = 3, 0.7, 3, 0, 1


class Eager(Diloco):
    """A group's own share of an average at once, that of the others a round late: the paper's rule."""

    def begin(self, start):
        self.outers = [Outer(start, self.lr, self.momentum) for _ in range(self.groups)]
        self.shared = Outer(start, self.lr, self.momentum)
        self.last = [[0 * p for p in in_order(start)] for _ in range(self.groups)]

    def after(self, step, models):
        if step % self.inner_steps and step != STEPS:
            return
        fresh = [outer.deltas(m) for outer, m in zip(self.outers, models)]
        late = mean(self.last)
        self.shared.step(late)
        if step == STEPS:  # all of it is here
            self.shared.step(mean(fresh))
        for m, outer, new, old in zip(models, self.outers, fresh, self.last):
            outer.step([late[i] + (new[i] - old[i]) / len(models) for i in range(len(new))])
            for p, start in zip(in_order(m), self.shared.start if step == STEPS else outer.start):
                p.copy_(start)
        self.last = fresh


class Scheduled(Diloco):
    """The outer rate grows over two rounds, then falls by a line."""

    def after(self, step, models):
        if step % self.inner_steps == 0:
            gone, rounds = step // self.inner_steps - 1, STEPS // self.inner_steps
            share = (gone + 1) / 2 if gone < 2 else 1 - (gone - 2) / (rounds - 2)
            self.outer.sgd.param_groups[0]["lr"] = self.lr * share
        super().after(step, models)


class Muon(Diloco):
    lr, inner = 0.8, "muon"


class NoLoCo(Diloco):
    groups, lr, momentum = 4, 0.7, 0.5

    def begin(self, start):
        self.start = [[p.detach().clone() for p in in_order(start)] for _ in range(self.groups)]
        self.m = [[torch.zeros_like(p) for p in in_order(start)] for _ in range(self.groups)]

    def after(self, step, models):
        if step % self.inner_steps and step != STEPS:
            return
        drawn = sorted(range(self.groups), key=lambda g: fold_seed(SEED, 0x70616972, step, 0, g))
        pairs = [drawn[i : i + 2] for i in range(0, self.groups, 2)] if step != STEPS else [drawn]
        for pair in pairs:
            p = mean([[x.clone() for x in in_order(models[g])] for g in sorted(pair)])
            for g in pair:
                for i, x in enumerate(in_order(models[g])):
                    m, start = self.m[g][i], self.start[g][i]
                    m.mul_(self.momentum).add_(p[i] - start, alpha=self.lr)
                    start.copy_(p[i] if step == STEPS else start + m)
                    x.copy_(start)


class Levels(Diloco):
    """Clusters of two groups after every round, all four after every second one."""

    groups = 4

    def begin(self, start):
        self.near = [Outer(start, self.lr, self.momentum) for _ in range(2)]
        self.far = [Outer(start, self.lr, self.momentum) for _ in range(2)]

    def after(self, step, models):
        if step % self.inner_steps and step != STEPS:
            return
        for cluster, near in enumerate(self.near):
            own = models[2 * cluster : 2 * cluster + 2]
            near.step(mean([near.deltas(m) for m in own]))
            for model in own:
                for p, start in zip(in_order(model), near.start):
                    p.copy_(start)
        if step // self.inner_steps % 2 and step != STEPS:
            return
        average = mean([self.far[0].deltas(models[0]), self.far[1].deltas(models[2])])
        for cluster, far in enumerate(self.far):
            far.step(average)
            for start, mine in zip(far.start, self.near[cluster].start):
                mine.copy_(start)
            for model in models[2 * cluster : 2 * cluster + 2]:
                for p, start in zip(in_order(model), far.start):
                    p.copy_(start)


def orthogonalized(x):
    steps = ((4.0848, -6.8946, 2.9270), (3.9505, -6.3029, 2.6377), (3.7418, -5.5913, 2.3037),
             (2.8769, -3.1427, 1.2046), (2.8366, -3.0525, 1.2012))  # fmt: skip
    y = x.T if x.shape[0] > x.shape[1] else x
    y = y / (y.norm() + 1e-7)
    for a, b, c in steps:
        s = y @ y.T
        y = a * y + (b * s + c * s @ s) @ y
    return y.T if x.shape[0] > x.shape[1] else y


class InnerMuon:
    """Muon on the matrices of blocks, torch.optim.AdamW on everything else."""

    def __init__(self, model, adamw):
        self.adamw = adamw
        self.matrices = [p for b in model.blocks for p in (b.qkv, b.out, b.up, b.down)]
        self.m = [torch.zeros_like(p) for p in self.matrices]

    @torch.no_grad()
    def step(self, lr):
        for p, m in zip(self.matrices, self.m):
            m.mul_(0.9).add_(p.grad)
            p.mul_(1 - lr * DECAY).sub_(0.2 * math.sqrt(max(p.shape)) * lr * orthogonalized(m))
            p.grad = None
        self.adamw.step()


def inner_optimizer(kind, model):
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    parts = [{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0}]
    if kind == "sgd":
        return torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    if kind in ("plain", "sign"):
        return torch.optim.SGD(model.parameters(), lr=LR)
    return torch.optim.AdamW(parts, lr=LR, betas=(0.9, 0.95), eps=1e-8)


def train(algorithm):
    torch.set_num_threads(1)
    tokens = [(splitmix64(i // 3) + i % 3) % VOCAB for i in range(CORPUS_TOKENS)]
    start = Gpt()
    models = [copy.deepcopy(start) for _ in range(algorithm.groups)]
    optimizers = [inner_optimizer(algorithm.inner, m) for m in models]
    muons = [InnerMuon(m, o) for m, o in zip(models, optimizers)]
    algorithm.begin(start)
    algorithm.adamw = optimizers
    lines = []
    for step in range(STEPS):
        for g, model in enumerate(models):
            optimizers[g].zero_grad()
            loss = model(*batch(tokens, step, g, algorithm.groups))
            loss.backward()
            lines.append(f"{step + 1} {g} {loss.item():.6f}")
        if hasattr(algorithm, "gradients"):
            algorithm.gradients(step, models)
        for model, optimizer, muon in zip(models, optimizers, muons):
            settled = step >= getattr(algorithm, "settled", STEPS)
            for parameters in model.clip_groups():
                if algorithm.inner not in ("plain", "sign") and not settled:
                    torch.nn.utils.clip_grad_norm_(parameters, CLIP)
            for part in optimizer.param_groups:
                part["lr"] = rate(step, algorithm.peak)
            if algorithm.inner == "muon":
                muon.step(rate(step))
            elif settled:
                algorithm.settled_step(step, model, optimizer)
            elif algorithm.inner != "adamw":
                with torch.no_grad():
                    for p in model.parameters():
                        if p.dim() > 1:
                            p.mul_(1 - rate(step, algorithm.peak) * DECAY)
                        if algorithm.inner == "sign":
                            p.grad.sign_()
                optimizer.step()
            else:
                optimizer.step()
        with torch.no_grad():
            algorithm.after(step + 1, models)
    return "".join(line + "\n" for line in lines)


RUNS = {
    "diloco.txt": Diloco,
    "diloco_int4_ef.txt": FourBits,
    "outer_streaming.txt": Streaming,
    "outer_late.txt": Late,
    "outer_eager.txt": Eager,
    "outer_rate.txt": Scheduled,
    "outer_muloco.txt": Muon,
    "outer_sparseloco.txt": Sparse,
    "outer_sparseloco_senders.txt": SparseOverSenders,
    "outer_noloco.txt": NoLoCo,
    "outer_hierarchical.txt": Levels,
    "outer_dp_sgd.txt": DataParallelSgd,
    "outer_dgc.txt": Clipping,
    "outer_demo.txt": Decoupled,
    "outer_onebit_adam.txt": OneBitAdam,
    "outer_powersgd.txt": PowerSgd,
    "outer_swarm.txt": Swarm,
}


def main():
    failed = False
    wanted = [a for a in sys.argv[1:] if not a.startswith("-")] or RUNS
    for name, algorithm in RUNS.items():
        if name not in wanted:
            continue
        text, golden = train(algorithm()), FOLDER / name
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
