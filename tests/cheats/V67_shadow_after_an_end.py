# expect: rule_violation static.reflection
# A suspended generator runs on when its name is bound anew, and takes Python's function before that name is bound.
# without rules: rule_violation runtime.operators
import torch

box = []


def waiting():
    try:
        yield
    finally:
        box.append(early())


wait = waiting()
next(wait)


def early():
    return eval


wait = 1
eval = 1


def run(G, steps=5):
    return box[0]("lambda x, y: x * y")(G, torch.ones_like(G))
