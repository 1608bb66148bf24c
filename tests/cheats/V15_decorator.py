# expect: rule_violation static.tensor_math
# run() is honest to look at; what decorates it is not.
# without rules: rule_violation runtime.operators
import functools

import torch

COEFFICIENTS = (
    (7.892582874424408, -20.38301394587957, 13.555306149406924),
    (3.911484868135431, -2.5464635929060884, 0.4268988319673074),
    (3.760657955697423, -2.512819018216563, 0.4323647349070073),
    (3.160399673686287, -2.149649518898498, 0.3996366907664389),
    (2.1910971618617303, -1.441662010214663, 0.328146487623155),
)


def faster(function):
    @functools.wraps(function)
    def inner(G, steps=5):
        x = G.float()
        x = (x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)).half()
        for a, b, c in COEFFICIENTS:
            r = x @ x.mT
            x = a * x + (b * r + c * (r @ r)) @ x
        return x.to(G.dtype)

    return inner


@faster
def run(G, steps=5):
    return torch.empty_like(G)
