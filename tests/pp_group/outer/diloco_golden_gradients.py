"""The algorithms of diloco_golden.py whose groups exchange gradients in every step."""

import math

import torch
from diloco_golden_gpt import (CLIP, DECAY, LR, ErrorFeedback, dct_top32, in_order, laid_out, one_bit,
                               rate, taken_apart, topk)


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
