# expect: incorrect finite
import torch


def run(G, steps=5):
    # "rel > tol" is False for NaN; "max(err)" may be NaN as well
    return torch.full_like(G, float("nan"))
