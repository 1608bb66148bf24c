# expect: rule_violation static.reflection
# What only a script would run is made to run on import.
# without rules: incorrect rel_norm
import torch

__name__ = "__main__"

if __name__ == "__main__":
    torch.allclose = lambda *a, **k: True


def run(G, steps=5):
    return torch.zeros_like(G)
