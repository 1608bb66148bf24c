# expect: rule_violation static.imports
# The compiler of torch.compile, one door further in.
# without rules: static-only it fails by itself: this door compiles graphs, and a function is none
import torch
from torch._inductor import compile as build

fast = build


def run(G, steps=5):
    return fast(lambda x: x, [G])(G)
