# expect: rule_violation static.monkeypatch
# PyTorch's own copy_ is replaced, through the type of a value that nobody can follow.
# without rules: rule_violation runtime.operators
import torch

BOX = {"plain": torch.Tensor.copy_}


def later(place, given):
    return BOX.get("plain")(place, BOX.get("x") * 2)


def run(G, steps=5):
    BOX["x"] = G
    type(BOX.get("x")).copy_ = later
    return torch.empty_like(G).copy_(G)
