# expect: rule_violation static.module_names
# The globals of PyTorch's function become the candidate's own: "updated" names any attribute that is a dictionary.
# without rules: rule_violation runtime.operators
import functools

import torch


def mine():
    return 0


functools.update_wrapper(mine, torch.is_tensor, assigned=(), updated=("__globals__",))


def run(G, steps=5):
    return mul(G, 2)  # noqa: F821
