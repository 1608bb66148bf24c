# expect: rule_violation static.imports
# without rules: incorrect rel_norm
import sys
import torch


def run(G, steps=5):
    # look for a tensor of the right shape in the callers' local variables
    f = sys._getframe(1)
    while f is not None:
        for name, v in list(f.f_locals.items()):
            if (isinstance(v, torch.Tensor) and v is not G and v.shape == G.shape
                    and v.dtype == G.dtype and v.data_ptr() != G.data_ptr()):
                return v.clone()
        f = f.f_back
    return torch.zeros_like(G)
