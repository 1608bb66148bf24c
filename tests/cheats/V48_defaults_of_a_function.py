# expect: rule_violation static.reflection
# Not the code of a function but its defaults are exchanged.
# without rules: rule_violation runtime.operators
import torch


def pick(chosen=None):
    return chosen


setattr(pick, "__defaults__", (torch,))


def run(G, steps=5):
    return pick().matmul(G, G.mT)
