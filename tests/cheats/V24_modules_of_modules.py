# expect: rule_violation static.module_names
# Allowed modules have imported what is not.
# without rules: incorrect rel_norm
import typing

import torch
import triton.language as tl

evaluate = tl.core.builtins.eval
system = typing.sys


def run(G, steps=5):
    frame = system._getframe(1)
    return evaluate("torch.zeros_like(G)", {"torch": torch, "G": G, "frame": frame})
