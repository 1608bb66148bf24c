# expect: rule_violation runtime.operators
# Python's own complex names the type, so that a view of pairs and a transposed copy negate half of the values.
import torch
import triton
import triton.language as tl


@triton.jit
def touch(x, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    tl.store(x + o, tl.load(x + o))


def run(G, steps=5):
    pairs = torch.zeros((4, 4, 2), dtype=torch.float64, device=G.device)
    pairs.view(complex)[..., 0].mH.contiguous().view(float)
    out = torch.empty_like(G)
    touch[(1,)](out, BLOCK=16)
    return out
