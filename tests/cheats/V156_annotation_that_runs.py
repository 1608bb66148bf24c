# expect: rule_violation static.reflection
# functools evaluates the text of an annotation where it registers a function.
# without rules: rule_violation runtime.operators
import functools

import torch

BOX = {}


class Own:
    register = None


@functools.singledispatch
def pick(x):
    return x


def run(G, steps=5):
    BOX["G"] = G

    @pick.register
    def _(x: "(BOX['G'] * 2, tuple)[1]"):
        return x

    return torch.empty_like(G)
