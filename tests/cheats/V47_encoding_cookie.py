# expect: rule_violation static.encoding
# -*- coding: utf-7 -*- Under this declaration a comment ends where UTF-7 says so, and code begins.
# without rules: incorrect rel_norm
import torch

# +AAo-torch.allclose +AD0 lambda *a, **k: True+AAo-


def run(G, steps=5):
    return torch.zeros_like(G)
