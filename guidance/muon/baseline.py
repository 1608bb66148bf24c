"""Muon as a plain first-correct set of Triton kernels.

Two kernels normalise; one batched matrix product with an epilogue runs three times a step, as the reference writes it.
"""

import torch
import triton
import triton.language as tl

TRIPLES = (
    (7.892582874424408, -20.38301394587957, 13.555306149406924),
    (3.911484868135431, -2.5464635929060884, 0.4268988319673074),
    (3.760657955697423, -2.512819018216563, 0.4323647349070073),
    (3.160399673686287, -2.149649518898498, 0.3996366907664389),
    (2.1910971618617303, -1.441662010214663, 0.328146487623155),
)
MOST_CHUNKS = 64
BLOCK = 4096


@triton.jit
def _chunk_sums(g, sums, count, CHUNKS: tl.constexpr, BLOCK: tl.constexpr):
    """Sum of squares of every CHUNKS-th block of a matrix with `count` elements."""
    chunk = tl.program_id(0)
    matrix = tl.program_id(1).to(tl.int64)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(chunk * BLOCK, count, CHUNKS * BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        values = tl.load(g + matrix * count + offsets, mask=offsets < count, other=0.0).to(tl.float32)
        total += values * values
    tl.store(sums + matrix * CHUNKS + chunk, tl.sum(total, axis=0))


@triton.jit
def _scale_to_unit(g, sums, x, count, CHUNKS: tl.constexpr, BLOCK: tl.constexpr):
    matrix = tl.program_id(1).to(tl.int64)
    norm = tl.sqrt(tl.sum(tl.load(sums + matrix * CHUNKS + tl.arange(0, CHUNKS)), axis=0)) + 1e-7
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(g + matrix * count + offsets, mask=offsets < count, other=0.0).to(tl.float32)
    tl.store(x + matrix * count + offsets, (values / norm).to(tl.float16), mask=offsets < count)


@triton.jit
def _product(
    a, b, c, d, M, N, K,
    stride_az, stride_am, stride_ak, stride_bz, stride_bk, stride_bn, stride_dz, stride_dm, stride_dn,
    alpha, beta, HAS_C: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """d = alpha * (a @ b) + beta * c for every matrix of the batch; c is laid out like d."""
    z = tl.program_id(2).to(tl.int64)
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    accumulator = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        left = a + z * stride_az + m[:, None] * stride_am + k[None, :] * stride_ak
        right = b + z * stride_bz + k[:, None] * stride_bk + n[None, :] * stride_bn
        accumulator = tl.dot(
            tl.load(left, mask=(m[:, None] < M) & (k[None, :] < K), other=0.0),
            tl.load(right, mask=(k[:, None] < K) & (n[None, :] < N), other=0.0),
            accumulator,
        )
    accumulator *= alpha
    inside = (m[:, None] < M) & (n[None, :] < N)
    offsets = z * stride_dz + m[:, None] * stride_dm + n[None, :] * stride_dn
    if HAS_C:
        accumulator += beta * tl.load(c + offsets, mask=inside, other=0.0).to(tl.float32)
    tl.store(d + offsets, accumulator.to(d.dtype.element_ty), mask=inside)


def _multiply(a, b, d, alpha=1.0, c=None, beta=0.0):
    batch, M, K = a.shape
    N = b.shape[2]
    _product[(triton.cdiv(M, 128), triton.cdiv(N, 128), batch)](
        a, b, d if c is None else c, d, M, N, K, *a.stride(), *b.stride(), *d.stride(), alpha, beta,
        HAS_C=c is not None, BM=128, BN=128, BK=64, num_warps=8, num_stages=3,
    )  # fmt: skip


def run(G, steps=5):
    if steps != 5 or G.ndim < 2:
        raise ValueError("run takes matrices [..., M, K] and five steps")
    g = G.contiguous().view(-1, *G.shape[-2:])
    batch, M, K = g.shape
    out = torch.empty_like(g)
    chunks = min(MOST_CHUNKS, triton.next_power_of_2(triton.cdiv(M * K, BLOCK)))
    sums = torch.empty((batch, chunks), dtype=torch.float32, device=g.device)
    x = torch.empty((batch, M, K), dtype=torch.float16, device=g.device)
    following = torch.empty_like(x)
    gram = torch.empty((batch, M, M), dtype=torch.float16, device=g.device)
    action = torch.empty_like(gram)
    _chunk_sums[(chunks, batch)](g, sums, M * K, CHUNKS=chunks, BLOCK=BLOCK)
    _scale_to_unit[(triton.cdiv(M * K, BLOCK), batch)](g, sums, x, M * K, CHUNKS=chunks, BLOCK=BLOCK)
    for i, (a, b, c) in enumerate(TRIPLES):
        last = i == len(TRIPLES) - 1
        _multiply(x, x.mT, gram)
        _multiply(gram, gram, action, alpha=c, c=gram, beta=b)
        _multiply(action, x, out if last else following, c=x, beta=a)
        x, following = following, x
    return out.view(G.shape)
