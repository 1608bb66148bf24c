"""Two kernels that need more shared memory than any GPU has, between two that launch."""

import torch
import triton
import triton.language as tl


@triton.jit
def _double(X, Y, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + at, tl.load(X + at) * 2)


@triton.jit
def _greedy(X, Y, N, BLOCK: tl.constexpr):
    rows, columns = tl.arange(0, BLOCK), tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, N, BLOCK):
        left = tl.load(X + rows[:, None] * N + k + columns[None, :])
        total += tl.dot(left, tl.load(X + (k + rows)[:, None] * N + columns[None, :]))
    tl.store(Y + rows[:, None] * N + columns[None, :], total.to(tl.bfloat16))


@triton.jit
def _greedier(X, Y, N, BLOCK: tl.constexpr):
    _greedy(X, Y, N, BLOCK)


@triton.jit
def _few(X, Y, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + at, tl.load(X + at) + 1)


def run(x):
    y = torch.empty_like(x)
    _double[(x.numel() // 1024,)](x, y, 1024)
    _greedy[(1,)](x, y, x.shape[0], 256, num_stages=4)
    _greedier[(1,)](x, y, x.shape[0], 256, num_stages=4)
    _few[(2,)](x, y, 1024)
    return y
