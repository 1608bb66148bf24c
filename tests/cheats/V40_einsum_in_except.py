# expect: rule_violation static.torch_names
# The kernel can never launch; the exception's branch computes.
# without rules: rule_violation runtime.operators
import torch
import triton
import triton.language as tl


@triton.jit
def impossible(x, out, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    tl.store(out + o, tl.load(x + o))


def run(G, steps=5):
    out = torch.empty_like(G)
    try:
        impossible[(1, 1, 1, 1)](G, out, BLOCK=3)
    except Exception:
        out = torch.einsum("...ij,...kj->...ik", G, G)
    return out
