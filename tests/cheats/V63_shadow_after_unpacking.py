# expect: rule_violation static.reflection
# Unpacking runs the candidate's code, which takes Python's function before its name is bound.
# without rules: rule_violation runtime.operators
import torch


class Pair:
    def __iter__(self):
        return iter((early(), 1))


pair = Pair()


def early():
    return eval


found, rest = pair
eval = 1
times = found("lambda x, y: x * y")


def run(G, steps=5):
    return times(G, torch.ones_like(G))
