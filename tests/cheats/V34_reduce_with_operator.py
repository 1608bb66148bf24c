# expect: rule_violation static.tensor_math
# The sum of a list of tensors, without an operator between two of them.
# without rules: rule_violation runtime.operators
import functools
import operator

import torch


def run(G, steps=5):
    parts = [G, torch.ones_like(G)]
    total = sum(parts)
    return functools.reduce(operator.add, [total, G])
