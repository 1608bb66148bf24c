# expect: rule_violation static.reflection
# A field's type is a text in a type: code, for whatever looks into it.
# without rules: rule_violation runtime.operators
import typing
from typing import List

import torch

BOX = {}


class Plan(typing.NamedTuple):
    rows: List["*(BOX['G'] * 2, int)[1:]"]  # noqa: F722


def run(G, steps=5):
    BOX["G"] = G
    typing.get_type_hints(Plan, globals())
    return torch.empty_like(G)
