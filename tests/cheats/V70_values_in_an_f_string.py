# expect: rule_violation static.tensor_math
# Values of an input are read on the host, by way of their text.
# without rules: rule_violation runtime.operators
import torch


def run(G, steps=5):
    if f"{G.view(-1)[0]}".startswith("tensor(0."):
        return torch.zeros_like(G)
    return torch.empty_like(G)
