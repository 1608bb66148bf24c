# expect: rule_violation static.reflection
# An operator in place reads the built-in before it binds the name.
# without rules: static-only it fails by itself: a built-in function has no operators
import enum

import torch

box = []


class Taking(enum.Flag):
    ONE = 1

    def _get_value(self, flag):
        box.append(flag)
        return 1


eval |= Taking.ONE
eval = 1


def run(G, steps=5):
    return box[0]("lambda x, y: x * y")(G, torch.ones_like(G))
