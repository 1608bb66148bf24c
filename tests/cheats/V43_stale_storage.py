# expect: rule_violation static.tensor_methods
# The result is laid over storage that the caller owns.
# without rules: rule_violation runtime.operators
import torch


def run(G, steps=5):
    out = torch.empty(0, dtype=G.dtype, device=G.device)
    out.set_(G.untyped_storage(), 0, G.shape, G.stride())
    return out
