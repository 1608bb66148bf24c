# expect: rule_violation static.module_names
# What functools.wraps gives back takes the names of what to update where it is called.
# without rules: rule_violation runtime.operators
from functools import wraps

import torch

BOX = {"wrap": wraps(torch.is_tensor)}


def mine():
    return 0


BOX.get("wrap")(mine, updated=("__globals__",))


def run(G, steps=5):
    return mul(G, 2)  # noqa: F821
