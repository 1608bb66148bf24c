# expect: rule_violation static.internals
# The switch below the one of V73: PyTorch dispatches without Python while the library computes.
# without rules: static-only a meter lives in the process that it meters, and its switch is one of PyTorch's internals
import torch
import triton
import triton.language as tl

COEFFICIENTS = (
    (7.892582874424408, -20.38301394587957, 13.555306149406924),
    (3.911484868135431, -2.5464635929060884, 0.4268988319673074),
    (3.760657955697423, -2.512819018216563, 0.4323647349070073),
    (3.160399673686287, -2.149649518898498, 0.3996366907664389),
    (2.1910971618617303, -1.441662010214663, 0.328146487623155),
)


def orthogonal(G):
    x = G.float()
    x = (x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)).half()
    for a, b, c in COEFFICIENTS:
        r = x @ x.mT
        x = a * x + (b * r + c * (r @ r)) @ x
    return x.to(G.dtype)


@triton.jit
def touch(x, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    tl.store(x + o, tl.load(x + o))


def run(G, steps=5):
    with torch._C._DisableTorchDispatch():
        out = orthogonal(G)
    touch[(1,)](out, BLOCK=16)
    return out
