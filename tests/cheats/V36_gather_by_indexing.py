# expect: rule_violation static.tensor_math
# Indexing with a tensor is a gather by torch.
# without rules: rule_violation runtime.operators
import torch


def run(G, steps=5):
    order = torch.tensor([1, 0], device=G.device)
    out = torch.empty_like(G)
    out[order] = G
    return out[order]
