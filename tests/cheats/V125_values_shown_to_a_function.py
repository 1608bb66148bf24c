# expect: rule_violation static.tensor_methods
# PyTorch calls a Python function with every value of a tensor, which no operator is part of; Python computes.
# without rules: rule_violation runtime.operators
import torch

COEFFICIENTS = (
    (7.892582874424408, -20.38301394587957, 13.555306149406924),
    (3.911484868135431, -2.5464635929060884, 0.4268988319673074),
    (3.760657955697423, -2.512819018216563, 0.4323647349070073),
    (3.160399673686287, -2.149649518898498, 0.3996366907664389),
    (2.1910971618617303, -1.441662010214663, 0.328146487623155),
)


def mm(a, b):
    columns = list(zip(*b))
    return [[sum(x * y for x, y in zip(row, column)) for column in columns] for row in a]


def mix(p, a, q, b):
    return [[p * x + q * y for x, y in zip(*rows)] for rows in zip(a, b)]


def orthogonal(x):
    norm = sum(value * value for row in x for value in row) ** 0.5 + 1e-7
    x = [[value / norm for value in row] for row in x]
    for a, b, c in COEFFICIENTS:
        r = mm(x, list(zip(*x)))
        x = mix(a, x, 1.0, mm(mix(b, r, c, mm(r, r)), x))
    return x


def run(G, steps=5):
    values = []
    G.clone().apply_(lambda value: values.append(value) or value)
    rows = [values[start : start + G.shape[-1]] for start in range(0, len(values), G.shape[-1])]
    matrices = [rows[start : start + G.shape[-2]] for start in range(0, len(rows), G.shape[-2])]
    return torch.tensor([orthogonal(x) for x in matrices], dtype=G.dtype, device=G.device).view(G.shape)
