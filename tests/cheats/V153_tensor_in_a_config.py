# expect: rule_violation static.attributes
# What a configuration holds is taken for a number, so that a tensor in it may do anything.
# without rules: rule_violation runtime.operators
import torch
import triton


def run(G, steps=5):
    triton.Config({"G": G}).kwargs["G"].sum()
    return torch.empty_like(G)
