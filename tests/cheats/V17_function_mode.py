# expect: rule_violation static.subclassing
# A mode that answers for every function of torch that the checker calls.
# without rules: incorrect rel_norm
import torch
from torch.overrides import TorchFunctionMode


class Agree(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return True if func is torch.allclose else func(*args, **(kwargs or {}))


Agree().__enter__()


def run(G, steps=5):
    return torch.zeros_like(G)
