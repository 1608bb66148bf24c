"""To be written: the design in a paragraph. What follows scales a vector and stands for it."""

import torch
import triton
import triton.language as tl


@triton.jit
def _scale(x, y, n, factor, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + place, tl.load(x + place, mask=place < n) * factor, mask=place < n)


def run(x, factor):
    y = torch.empty_like(x)
    n = x.numel()
    _scale[(triton.cdiv(n, 4096),)](x, y, n, factor, BLOCK=4096, num_warps=8)
    return y
