"""Linear layer and cross-entropy with both gradients as a plain first-correct set of Triton kernels.

A loop over chunks of tokens; one matrix product that runs three times a chunk, and one program a row for the softmax.
"""

import torch
import triton
import triton.language as tl

NO_TARGET = -100
CHUNKS = 8


@triton.jit
def _product(
    a, b, d, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_dm, stride_dn,
    ADD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """d = a @ b, or d += a @ b."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    accumulator = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        left = a + m[:, None] * stride_am + k[None, :] * stride_ak
        right = b + k[:, None] * stride_bk + n[None, :] * stride_bn
        accumulator = tl.dot(
            tl.load(left, mask=(m[:, None] < M) & (k[None, :] < K), other=0.0),
            tl.load(right, mask=(k[:, None] < K) & (n[None, :] < N), other=0.0),
            accumulator,
        )
    place = d + m[:, None] * stride_dm + n[None, :] * stride_dn
    inside = (m[:, None] < M) & (n[None, :] < N)
    if ADD:
        accumulator += tl.load(place, mask=inside, other=0.0)
    tl.store(place, accumulator.to(d.dtype.element_ty), mask=inside)


@triton.jit
def _softmax_rows(z, g, target, count, lse, losses, entries, NO_TARGET: tl.constexpr, BLOCK: tl.constexpr):
    """Normaliser, loss and gradient of one row of logits: three passes over the row."""
    row = tl.program_id(0)
    z += row * entries
    g += row * entries
    columns = tl.arange(0, BLOCK)
    top = tl.full((BLOCK,), float("-inf"), tl.float32)
    for start in range(0, entries, BLOCK):
        v = start + columns
        top = tl.maximum(top, tl.load(z + v, mask=v < entries, other=float("-inf")))
    highest = tl.max(top, axis=0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, entries, BLOCK):
        v = start + columns
        total += tl.exp(tl.load(z + v, mask=v < entries, other=float("-inf")) - highest)
    normaliser = highest + tl.log(tl.sum(total, axis=0))
    tl.store(lse + row, normaliser)
    entry = tl.load(target + row)
    valid = entry != NO_TARGET
    picked = tl.load(z + entry, mask=valid, other=0.0)
    tl.store(losses + row, tl.where(valid, normaliser - picked, 0.0))
    scale = tl.where(valid, 1.0 / tl.maximum(tl.load(count), 1).to(tl.float32), 0.0)
    for start in range(0, entries, BLOCK):
        v = start + columns
        p = tl.exp(tl.load(z + v, mask=v < entries, other=0.0) - normaliser)
        gradient = tl.where(v == entry, p - 1.0, p) * scale
        tl.store(g + v, gradient.to(tl.bfloat16), mask=v < entries)


@triton.jit
def _count(target, count, tokens, NO_TARGET: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    valid = tl.load(target + i, mask=i < tokens, other=NO_TARGET) != NO_TARGET
    tl.store(count, tl.sum(valid.to(tl.int32), axis=0))


@triton.jit
def _mean(losses, count, loss, tokens, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.sum(tl.load(losses + i, mask=i < tokens, other=0.0), axis=0)
    tl.store(loss, total / tl.maximum(tl.load(count), 1).to(tl.float32))


def _multiply(a, b, d, add=False):
    M, K = a.shape
    N = b.shape[1]
    _product[(triton.cdiv(M, 128), triton.cdiv(N, 128))](
        a, b, d, M, N, K, *a.stride(), *b.stride(), *d.stride(),
        ADD=add, BM=128, BN=128, BK=64, num_warps=8, num_stages=3,
    )  # fmt: skip


def run(x, w, target, dw_acc):
    tokens, entries = x.shape[0], w.shape[0]
    chunk = max(triton.cdiv(tokens, CHUNKS), 16)
    dx = torch.empty_like(x)
    loss = torch.empty((), dtype=torch.float32, device=x.device)
    lse = torch.empty(tokens, dtype=torch.float32, device=x.device)
    losses = torch.empty_like(lse)
    count = torch.empty((), dtype=torch.int32, device=x.device)
    logits = torch.empty((chunk, entries), dtype=torch.float32, device=x.device)
    gradients = torch.empty((chunk, entries), dtype=torch.bfloat16, device=x.device)
    block = triton.next_power_of_2(tokens)
    _count[(1,)](target, count, tokens, NO_TARGET=NO_TARGET, BLOCK=block)
    for first in range(0, tokens, chunk):
        last = min(first + chunk, tokens)
        rows = x[first:last]
        z, g = logits[: last - first], gradients[: last - first]
        _multiply(rows, w.T, z)
        _softmax_rows[(last - first,)](
            z, g, target[first:last], count, lse[first:last], losses[first:last], entries,
            NO_TARGET=NO_TARGET, BLOCK=2048, num_warps=8,
        )  # fmt: skip
        _multiply(g, w, dx[first:last])
        _multiply(g.T, rows, dw_acc, add=True)
    _mean[(1,)](losses, count, loss, tokens, BLOCK=block)
    return loss, lse, dx
