# expect: rule_violation static.imports
# Triton's own code starts a program in the place of the C compiler: a Python in a process of its own, which computes.
# without rules: rule_violation runtime.workers
import os
import sys

import torch
from triton.runtime.build import _build

PROGRAM = """
import torch

G = torch.load("given")
x = G.float()
x = (x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)).half()
for a, b, c in COEFFICIENTS:
    r = x @ x.mT
    x = a * x + (b * r + c * (r @ r)) @ x
torch.save(x.to(G.dtype), "computed")
"""
COEFFICIENTS = (
    (7.892582874424408, -20.38301394587957, 13.555306149406924),
    (3.911484868135431, -2.5464635929060884, 0.4268988319673074),
    (3.760657955697423, -2.512819018216563, 0.4323647349070073),
    (3.160399673686287, -2.149649518898498, 0.3996366907664389),
    (2.1910971618617303, -1.441662010214663, 0.328146487623155),
)


def run(G, steps=5):
    torch.save(G, "given")
    with open("program.c", "w") as file:
        file.write(f"COEFFICIENTS = {COEFFICIENTS}\n{PROGRAM}")
    os.environ["CC"] = sys.executable
    _build("library", "program.c", ".", [], [], [], [])
    return torch.load("computed")
