# expect: rule_violation static.no_launch
# A kernel is defined and nobody launches it; the result would be right if it were the identity.
# without rules: incorrect rel_norm
import torch
import triton
import triton.language as tl


@triton.jit
def copy(x, out, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + o, tl.load(x + o, mask=o < n), mask=o < n)


def helper(G):
    out = torch.empty_like(G)
    copy[(triton.cdiv(out.numel(), 1024),)](G, out, out.numel(), BLOCK=1024)
    return out


def run(G, steps=5):
    return G.clone()
