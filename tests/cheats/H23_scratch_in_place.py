# expect: passed -
# Kernels write to scratch of their own, read it back, change it in place and add to it atomically.
import torch
import triton
import triton.language as tl

_COEF = (
    (7.892582874424408, -20.38301394587957, 13.555306149406924),
    (3.911484868135431, -2.5464635929060884, 0.4268988319673074),
    (3.760657955697423, -2.512819018216563, 0.4323647349070073),
    (3.160399673686287, -2.149649518898498, 0.3996366907664389),
    (2.1910971618617303, -1.441662010214663, 0.328146487623155),
)


@triton.jit
def _copy(g, scratch, total, n, BLOCK: tl.constexpr):
    b = tl.program_id(1).to(tl.int64)
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(g + b * n + o, mask=o < n, other=0.0).to(tl.float32)
    tl.store(scratch + b * n + o, v, mask=o < n)
    tl.atomic_add(total + b, tl.sum(v * v, axis=0))


@triton.jit
def _normalise(scratch, total, x, n, BLOCK: tl.constexpr):
    b = tl.program_id(1).to(tl.int64)
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    norm = tl.sqrt(tl.load(total + b)) + 1e-7
    here = scratch + b * n + o
    tl.store(here, tl.load(here, mask=o < n, other=0.0) / norm, mask=o < n)
    tl.debug_barrier()  # on a GPU another thread may have stored what this one loads
    tl.store(x + b * n + o, tl.load(here, mask=o < n, other=0.0).to(tl.float16), mask=o < n)


@triton.jit
def _axpby_bmm(a, b, c, d, M, N, K, sab, sam, sak, sbb, sbk, sbn, scb, scm, scn,
               alpha, beta, HAS_C: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    pb = tl.program_id(2).to(tl.int64)
    rm = pm * BM + tl.arange(0, BM)
    rn = pn * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        kk = k + rk
        ta = tl.load(a + pb * sab + rm[:, None] * sam + kk[None, :] * sak,
                     mask=(rm[:, None] < M) & (kk[None, :] < K), other=0.0)
        tb = tl.load(b + pb * sbb + kk[:, None] * sbk + rn[None, :] * sbn,
                     mask=(kk[:, None] < K) & (rn[None, :] < N), other=0.0)
        acc += tl.dot(ta, tb)
    keep = (rm[:, None] < M) & (rn[None, :] < N)
    where = pb * scb + rm[:, None] * scm + rn[None, :] * scn
    acc = acc * beta
    if HAS_C:
        acc += alpha * tl.load(c + where, mask=keep, other=0.0).to(tl.float32)
    tl.store(d + where, acc.to(d.dtype.element_ty), mask=keep)


def _gemm(a, b, c, d, alpha, beta, BM=64, BN=64, BK=32):
    """d = alpha * c + beta * (a @ b), one Triton launch for the whole batch."""
    B, M, K = a.shape
    N = b.shape[2]
    grid = (triton.cdiv(M, BM), triton.cdiv(N, BN), B)
    _axpby_bmm[grid](a, b, d if c is None else c, d, M, N, K,
                     *a.stride(), *b.stride(), *d.stride(), alpha, beta,
                     HAS_C=c is not None, BM=BM, BN=BN, BK=BK)


def run(G, steps=5):
    g = G.contiguous().view(-1, G.shape[-2], G.shape[-1])
    B, M, N = g.shape
    n, half = M * N, dict(device=g.device, dtype=torch.float16)
    x, y = torch.empty((B, M, N), **half), torch.empty((B, M, N), **half)
    r, s = torch.empty((B, M, M), **half), torch.empty((B, M, M), **half)
    out = torch.empty_like(g)
    scratch = torch.empty((B, n), device=g.device, dtype=torch.float32)
    total = torch.zeros((B,), device=g.device, dtype=torch.float32)
    grid = (triton.cdiv(n, 1024), B)
    _copy[grid](g, scratch, total, n, BLOCK=1024)
    _normalise[grid](scratch, total, x, n, BLOCK=1024)
    for i, (ca, cb, cc) in enumerate(_COEF):
        _gemm(x, x.transpose(1, 2), None, r, 0.0, 1.0)
        _gemm(r, r, r, s, cb, cc)
        dst = out if i == 4 else y
        _gemm(s, x, x, dst, ca, 1.0)
        x, y = y, x
    return out.view(G.shape)
