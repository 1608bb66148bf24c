# expect: rule_violation static.monkeypatch
# The result of the first call hangs on the argument and comes back in the next.
# without rules: incorrect finite
import torch


def run(G, steps=5):
    if not hasattr(G, "result"):
        G.result = torch.empty_like(G)
    return G.result
