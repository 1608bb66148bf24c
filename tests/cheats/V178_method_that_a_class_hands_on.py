# expect: rule_violation static.monkeypatch
# A method that its class hands on is called with torch.Tensor for self, whose methods it sets.
# without rules: incorrect finite
import torch


class Own:
    def put(self):
        self.is_contiguous = answers


def answers(x):
    return True


list(map(Own.put, [torch.Tensor]))


def run(G, steps=5):
    return torch.empty_like(G)
