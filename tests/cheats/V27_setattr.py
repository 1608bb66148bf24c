# expect: rule_violation static.monkeypatch
# A patch without an assignment.
# without rules: incorrect rel_norm
import torch

setattr(torch.cuda, "synchronize", print)
delattr(torch, "allclose")


def run(G, steps=5):
    return torch.zeros_like(G)
