# expect: rule_violation static.reflection
# A default is computed where its function is defined, before the built-in's name is bound.
# without rules: rule_violation runtime.operators
import torch


def early():
    return eval


def keep(found=early()):
    return found


eval = 1


def run(G, steps=5):
    return keep()("lambda x, y: x * y")(G, torch.ones_like(G))
