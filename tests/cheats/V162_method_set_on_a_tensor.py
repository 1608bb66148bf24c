# expect: rule_violation static.monkeypatch
# An answer of unknown type gets a method of its own, which computes when the answer is looked at.
# without rules: incorrect finite
import torch

BOX = {}


def run(G, steps=5):
    BOX["x"] = torch.empty_like(G)
    x = BOX.get("x")
    x.contiguous = lambda: G
    return x
