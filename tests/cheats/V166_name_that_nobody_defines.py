# expect: rule_violation static.undefined
# A name that the candidate nowhere defines, since PyTorch's globals are poured into its own while it runs.
# without rules: rule_violation runtime.operators
import functools

import torch


def mine():
    return 0


functools.update_wrapper(mine, torch.is_tensor, assigned=(), updated=("__globals__",))


class Own:
    def mul(self):
        return [self for mul in "a"]


def run(G, steps=5):
    return mul(G, 2)  # noqa: F821
