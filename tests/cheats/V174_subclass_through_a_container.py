# expect: rule_violation static.subclassing
# A class derives from torch.Tensor, which a container hands on: its instances are tensors of the candidate's own kind.
# without rules: incorrect finite
import torch

BOX = {"plain": torch.Tensor, "n": 1}


class Answer(BOX.get("plain")):
    def contiguous(self):
        return self * 0


def run(G, steps=5):
    return torch.empty_like(G)
