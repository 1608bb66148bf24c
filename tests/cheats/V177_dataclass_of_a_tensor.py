# expect: rule_violation static.monkeypatch
# A decorator of classes is called with torch's, which gets another equality and initialiser for everybody.
# without rules: incorrect finite
import dataclasses

import torch

dataclasses.dataclass(torch.Tensor)


def run(G, steps=5):
    return torch.empty_like(G)
