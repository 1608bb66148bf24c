# expect: rule_violation static.module_names
# A text in a type is code that the standard library's own object evaluates.
# without rules: rule_violation runtime.operators
import typing

import torch


class Own:
    _evaluate = None


def run(G, steps=5):
    typing.get_args(typing.List["print(G * 2)"])[0]._evaluate({"G": G}, {}, frozenset())
    return torch.empty_like(G)
