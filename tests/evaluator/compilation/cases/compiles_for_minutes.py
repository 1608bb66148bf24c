import torch
import triton
import triton.language as tl


@triton.jit
def _unrolled(x, y, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    value = tl.load(x + o)
    for i in tl.static_range(1000):
        for j in tl.static_range(1000):
            value = value * 0.5 + i + j
    tl.store(y + o, value)


def run(x):
    y = torch.empty_like(x)
    _unrolled[(1,)](x, y, BLOCK=32)
    return y
