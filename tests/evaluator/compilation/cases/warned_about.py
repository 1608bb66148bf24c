"""Kernels that waste a GPU in one way each, and others of their kind that do not."""

import torch
import triton
import triton.language as tl


@triton.jit
def _exact(A, C, N: tl.constexpr, T: tl.constexpr):
    """A product whose operands stay f32."""
    m, n, k = tl.program_id(0) * T + tl.arange(0, T), tl.program_id(1) * T + tl.arange(0, T), tl.arange(0, T)
    acc = tl.zeros((T, T), tl.float32)
    for i in range(0, N, T):
        a = tl.load(A + m[:, None] * N + i + k[None, :]).to(tl.float32)
        b = tl.load(A + (i + k)[:, None] * N + n[None, :]).to(tl.float32)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(C + m[:, None] * N + n[None, :], acc)


@triton.jit
def _uneven(X, Y, n, BLOCK: tl.constexpr):
    """The mask ends at a number that is no multiple of 16 (or is: then all is well)."""
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + o % 16, tl.load(X + o, mask=o < n))


@triton.jit
def _few(X, Y, BLOCK: tl.constexpr):
    """Far fewer blocks than multiprocessors."""
    tl.store(Y, tl.sum(tl.load(X + tl.arange(0, BLOCK)).to(tl.float32), 0))


@triton.jit
def _tiny(X, Y, BLOCK: tl.constexpr):
    """An element a thread."""
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + o, tl.load(X + o).to(tl.float32))


@triton.jit
def _scaled(X, S, Y, N, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Every thread wants the factor of every row: many narrow loads, of a small tile."""
    m = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    o = m[:, None] * N + tl.arange(0, COLUMNS)[None, :]
    tl.store(Y + o, tl.load(X + o) * tl.load(S + m)[:, None])


def run(x):
    c = torch.empty(x.shape, device=x.device, dtype=torch.float32)
    n = x.shape[0]
    _exact[(n // 32, n // 32)](x, c, n, 32)
    _uneven[(1024,)](x, c, 1024 * 1024 - 1, 1024)
    _uneven[(1024,)](x, c, 1024 * 1024, 1024)
    _few[(2,)](x, c, 1024)
    _tiny[(x.numel() // 128,)](x, c, 128)
    _scaled[(n // 32,)](x, c, c, n, 32, 256)
    return c
