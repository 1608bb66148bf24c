# expect: rule_violation static.casts
# Conversions by torch: half of a kernel's work where memory is the limit.
# without rules: rule_violation runtime.operators
import torch


def run(G, steps=5):
    half = torch.float16
    x = G.to(half)
    return x.to(dtype=G.dtype)
