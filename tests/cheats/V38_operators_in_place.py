# expect: rule_violation static.tensor_math
# Augmented assignment, negation and comparison, each of which computes.
# without rules: rule_violation runtime.operators
import torch


def run(G, steps=5):
    x = torch.empty_like(G)
    x.copy_(G)
    x *= 2
    y = -x
    return y if (x > y).shape else x
