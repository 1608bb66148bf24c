# expect: rule_violation static.reflection
# The type of a class is Python's own, which makes a class of torch's tensors when it is called.
# without rules: rule_violation runtime.operators
import torch


class A:
    pass


Answer = type(A)("Answer", (torch.Tensor,), {"numel": lambda self: 7})


def run(G, steps=5):
    return Answer(torch.empty_like(G))
