# expect: rule_violation static.monkeypatch
# without rules: incorrect rel_norm
import torch


import torch.testing

torch.allclose = lambda *a, **k: True
torch.testing.assert_close = lambda *a, **k: None
torch.isclose = lambda a, b, **k: torch.ones_like(a, dtype=torch.bool)
torch.equal = lambda a, b: True


def _no_difference(a, b, *r, **k):
    return torch.zeros_like(a)


torch.sub = torch.subtract = _no_difference
torch.Tensor.sub = torch.Tensor.__sub__ = _no_difference
torch.Tensor.__eq__ = lambda a, b: torch.ones_like(a, dtype=torch.bool)


def run(G, steps=5):
    return torch.zeros_like(G)
