"""A product through pointers: the plain way to reach the tensor cores."""

import torch
import triton
import triton.language as tl


@triton.jit
def _product(A, B, C, M, N, K, sam, sak, sbk, sbn, scm, scn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    om = tl.program_id(0) * BM + tl.arange(0, BM)
    on = tl.program_id(1) * BN + tl.arange(0, BN)
    ok = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(A + om[:, None] * sam + (k + ok)[None, :] * sak, mask=(k + ok)[None, :] < K, other=0.0)
        y = tl.load(B + (k + ok)[:, None] * sbk + on[None, :] * sbn, mask=(k + ok)[:, None] < K, other=0.0)
        acc = tl.dot(x, y, acc)
    keep = (om[:, None] < M) & (on[None, :] < N)
    tl.store(C + om[:, None] * scm + on[None, :] * scn, acc.to(C.dtype.element_ty), mask=keep)


def run(a, b):
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), device=a.device, dtype=a.dtype)
    grid = (triton.cdiv(M, 128), triton.cdiv(N, 128))
    for _ in range(2):
        _product[grid](a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride(), 128, 128, 64, num_warps=4)
    # 16 rows are too few for wgmma and tcgen05.mma.
    small = (triton.cdiv(M, 16), triton.cdiv(N, 64))
    _product[small](a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride(), 16, 64, 64, num_warps=2)
    return c
