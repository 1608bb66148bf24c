# expect: rule_violation static.reflection
# getattr is handed on by keyword and called under another name.
# without rules: rule_violation runtime.operators
from types import SimpleNamespace

import torch

tools = SimpleNamespace(take=getattr)


def run(G, steps=5):
    return tools.take(torch.empty_like(G), "mul" + "_")(G)
