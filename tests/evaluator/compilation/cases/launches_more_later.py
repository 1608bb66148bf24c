"""The third call of a process launches another kernel."""

import torch
import triton
import triton.language as tl

_calls = [0]


@triton.jit
def _twice(X, Y, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + o, tl.load(X + o, mask=o < n) * 2, mask=o < n)


@triton.jit
def _thrice(X, Y, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + o, tl.load(X + o, mask=o < n) * 3, mask=o < n)


def run(x):
    _calls[0] += 1
    y = torch.empty_like(x)
    kernel = _twice if _calls[0] < 3 else _thrice
    kernel[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)
    return y
