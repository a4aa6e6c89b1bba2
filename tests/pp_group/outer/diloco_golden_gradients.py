"""The algorithms of diloco_golden.py whose groups exchange gradients in every step."""

import math

import torch
import torch.nn.functional as F
from diloco_golden_gpt import (CLIP, DECAY, LR, ErrorFeedback, dct_top32, in_order, laid_out, one_bit,
                               rate, taken_apart, topk, uniform)


class DataParallelSgd:
    """Gradients averaged in every step, then torch.optim.SGD with momentum."""

    groups, inner, peak = 2, "sgd", LR

    def begin(self, start):
        pass

    def gradients(self, step, models):
        for parts in zip(*(m.parameters() for m in models)):
            average = sum(p.grad for p in parts) / len(models)
            for p in parts:
                p.grad = average.clone()

    def after(self, step, models):
        pass


class Clipping(DataParallelSgd):
    """Deep Gradient Compression: clipped, momentum corrected, what is large of the unsent is sent."""

    inner, peak = "plain", 2.0

    def begin(self, start):
        n = len(laid_out(list(in_order(start))))
        self.u, self.v = ([torch.zeros(n) for _ in range(self.groups)] for _ in "uv")

    def gradients(self, step, models):
        k = 4 ** (5 - step // 2) if step < 8 else 4  # of 4096
        sent = []
        for model, u, v in zip(models, self.u, self.v):
            for parameters in model.clip_groups():
                torch.nn.utils.clip_grad_norm_(parameters, CLIP / math.sqrt(len(models)))
            u.mul_(0.9).add_(laid_out([p.grad for p in in_order(model)]))
            v.add_(u)
            sent.append(topk(v, k, dtype=torch.float16))
            u[sent[-1] != 0] = 0
            v[sent[-1] != 0] = 0
        self.spread(sum(sent) / len(sent), models)

    def spread(self, average, models):
        for model in models:
            for p, g in zip(in_order(model), taken_apart(average, list(in_order(model)))):
                p.grad = g.clone()


class Decoupled(Clipping):
    """DeMo: what is large of the momentum in the frequency domain, then the mean's sign."""

    inner, peak = "sign", 1e-2

    def begin(self, start):
        self.delta = [torch.zeros(len(laid_out(list(in_order(start))))) for _ in range(self.groups)]

    def gradients(self, step, models):
        sent = []
        for model, delta in zip(models, self.delta):
            delta.mul_(0.999).add_(laid_out([p.grad for p in in_order(model)]), alpha=rate(step, self.peak))
            sent.append(dct_top32(delta))
            delta.sub_(sent[-1])
        self.spread(sum(sent) / len(sent), models)


class PowerSgd(Clipping):
    """PowerSGD: of the gradients, folded to a square, products of rank 4 with what they lost before."""

    inner, peak = "sgd", 0.1

    def begin(self, start):
        self.n = len(laid_out(list(in_order(start))))
        self.cols = math.ceil(math.sqrt(self.n))
        q = torch.tensor([[2 * uniform(0, j * self.cols + k, purpose=4) - 1 for j in range(4)]
                          for k in range(self.cols)], dtype=torch.float64)
        self.q = [q / q.norm(dim=0) for _ in range(self.groups)]
        self.lost = [torch.zeros(self.n) for _ in range(self.groups)]

    def gradients(self, step, models):
        sent = []
        for g, model in enumerate(models):
            wanted = self.lost[g] + laid_out([p.grad for p in in_order(model)])
            m = F.pad(wanted, (0, -self.n % self.cols)).view(-1, self.cols).double()
            p = torch.linalg.qr(m @ self.q[g]).Q
            q = m.T @ p
            self.q[g] = q / q.norm(dim=0)
            sent.append((p @ q.T).float().flatten()[: self.n])
            self.lost[g] = wanted - sent[-1]
        self.spread(sum(sent) / len(sent), models)


class Swarm(Clipping):
    """SWARM's averaging: gradients in the nearest of 256 values of a dynamic map, by blocks of 4096."""

    inner, peak = "adamw", LR

    def begin(self, start):
        halves = [(0.1 + 0.9 * (j + 0.5) / 2**i) * 10.0 ** (i - 6) for i in range(7) for j in range(2**i)]
        self.map = torch.tensor(sorted([0.0, 1.0] + halves + [-x for x in halves]), dtype=torch.float32)

    def crossed(self, flat):
        parts = []
        for part in flat.split(4096):
            largest = part.abs().max()
            between = (self.map[1:].double() + self.map[:-1].double()) / 2
            parts.append(self.map[torch.bucketize((part / largest).double(), between)] * largest)
        return torch.cat(parts)

    def gradients(self, step, models):
        sent = [self.crossed(laid_out([p.grad for p in in_order(m)])) for m in models]
        self.spread(sum(sent) / len(sent), models)


class OneBitAdam(Clipping):
    """Six steps of AdamW; then its second moment stays and the first crosses in one bit."""

    inner, settled, peak = "adamw", 6, LR

    def begin(self, start):
        self.codecs = [ErrorFeedback(one_bit) for _ in range(self.groups)]

    def gradients(self, step, models):
        if step < self.settled:
            DataParallelSgd.gradients(self, step, models)
            return
        sent = []
        for model, codec, adamw in zip(models, self.codecs, self.adamw):
            for parameters in model.clip_groups():
                torch.nn.utils.clip_grad_norm_(parameters, CLIP)
            m = laid_out([adamw.state[p]["exp_avg"] for p in in_order(model)])
            sent.append(codec(0.9 * m + 0.1 * laid_out([p.grad for p in in_order(model)])))
        self.spread(sum(sent) / len(sent), models)

    @torch.no_grad()
    def settled_step(self, step, model, adamw):
        for p in in_order(model):
            m, v = adamw.state[p]["exp_avg"], adamw.state[p]["exp_avg_sq"]
            m.copy_(p.grad)
            if p.dim() > 1:
                p.mul_(1 - rate(step) * DECAY)
            root = (v / (1 - 0.95**self.settled)).sqrt() + 1e-8
            p.sub_(rate(step) / (1 - 0.9 ** (step + 1)) * m / root)
