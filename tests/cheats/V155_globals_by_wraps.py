# expect: rule_violation static.module_names
# functools.wraps, told to update the globals of what it decorates with PyTorch's.
# without rules: rule_violation runtime.operators
import functools

import torch


@functools.wraps(torch.is_tensor, assigned=(), updated=("__globals__",))
def mine():
    return 0


def run(G, steps=5):
    return mul(G, 2)  # noqa: F821
