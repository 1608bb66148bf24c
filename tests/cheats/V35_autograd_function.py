# expect: rule_violation static.subclassing
# The formula hides in a backward pass.
# without rules: incorrect rel_norm
import torch


class Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad @ grad.mT


def run(G, steps=5):
    return Step.apply(G)
