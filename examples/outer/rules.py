"""Outer algorithms for outer.algorithm = "python:examples/outer/rules.py:CLASS"; docs/outer-python.md explains the hooks."""
import torch


class Diloco:
    """DiLoCo (arXiv 2311.08105): one Nesterov step over the mean of what the groups moved."""

    state = ("momentum",)

    def __init__(self, rank):
        self.rank = rank
        self.momentum = rank.state["momentum"]

    def send(self, step):
        return self.rank.start - self.rank.parameters

    def apply(self, step, mean, lr):
        mu = self.rank.momentum
        self.momentum.copy_(torch.add(mean, self.momentum, alpha=mu))  # momentum = mean + mu momentum
        return torch.sub(self.rank.start, torch.add(mean, self.momentum, alpha=mu), alpha=lr)


class Average:
    """Local SGD: the groups take the mean of their parameters."""

    def __init__(self, rank):
        self.rank = rank

    def send(self, step):
        return self.rank.start - self.rank.parameters

    def apply(self, step, mean, lr):
        return self.rank.start - mean


class SignVote:
    """A majority vote: a parameter moves by lr in the direction in which most groups moved it. It crosses in one bit."""

    def __init__(self, rank):
        self.rank = rank

    def send(self, step):
        return torch.sign(self.rank.start - self.rank.parameters)

    def apply(self, step, mean, lr):
        return self.rank.start - lr * torch.sign(mean)
