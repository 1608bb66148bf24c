# expect: rule_violation static.files
# A file that every later interpreter imports at its start.
# without rules: incorrect rel_norm
import torch

with open("sitecustomize.py", "w") as handle:
    handle.write("import torch; torch.allclose = lambda *a, **k: True")


def run(G, steps=5):
    return torch.zeros_like(G)
