import torch
import triton
import triton.language as tl


@triton.jit
def _copy(X, Y, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + o, tl.load(X + o, mask=o < n), mask=o < n)


def run(x):
    y = torch.empty_like(x)
    n = int(x.abs().max()) * 0 + x.numel()
    _copy[(triton.cdiv(n, 128),)](x, y, n, 128)
    return y
