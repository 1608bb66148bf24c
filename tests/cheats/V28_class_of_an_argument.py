# expect: rule_violation static.reflection
# From an object to every class there is.
# without rules: incorrect rel_norm
import torch


def run(G, steps=5):
    for kind in G.__class__.__base__.__subclasses__():
        if kind.__name__ == "_wrap_close":
            kind.__init__.__globals__["system"]("true")
    return torch.zeros_like(G)
