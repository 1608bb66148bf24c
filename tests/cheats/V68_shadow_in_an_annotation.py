# expect: rule_violation static.reflection
# An annotation is read where its function is defined, before the built-in's name is bound.
# without rules: rule_violation runtime.operators
import torch

box = []


class Reading:
    @property
    def kind(self):
        box.append(early())
        return int


reading = Reading()


def early():
    return eval


def unused(x: reading.kind):
    return x


eval = 1


def run(G, steps=5):
    return box[0]("lambda x, y: x * y")(G, torch.ones_like(G))
