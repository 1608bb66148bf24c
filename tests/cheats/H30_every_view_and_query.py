# expect: passed -
# Every kind of view, query, allocation and fill that the rules allow, without a cast among them.
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
def _partial_sumsq(g, part, n, P: tl.constexpr, BLOCK: tl.constexpr):
    p = tl.program_id(0)
    b = tl.program_id(1).to(tl.int64)
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(p * BLOCK, n, P * BLOCK):
        o = start + tl.arange(0, BLOCK)
        v = tl.load(g + b * n + o, mask=o < n, other=0.0).to(tl.float32)
        acc += v * v
    tl.store(part + b * P + p, tl.sum(acc, axis=0))


@triton.jit
def _normalise(g, part, x, n, P: tl.constexpr, BLOCK: tl.constexpr):
    p = tl.program_id(0)
    b = tl.program_id(1).to(tl.int64)
    norm = tl.sqrt(tl.sum(tl.load(part + b * P + tl.arange(0, P)), axis=0)) + 1e-7
    o = p * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(g + b * n + o, mask=o < n, other=0.0).to(tl.float32)
    tl.store(x + b * n + o, (v / norm).to(tl.float16), mask=o < n)


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


def _muon(G, coef=_COEF):
    shape = G.shape
    g = G.contiguous().view(-1, shape[-2], shape[-1])
    B, M, N = g.shape
    n = M * N
    P, BLOCK = 64, 1024
    part = torch.empty((B, P), device=g.device, dtype=torch.float32)
    x = torch.empty((B, M, N), device=g.device, dtype=torch.float16)
    y = torch.empty_like(x)
    r = torch.empty((B, M, M), device=g.device, dtype=torch.float16)
    s = torch.empty_like(r)
    out = torch.empty_like(g)
    _partial_sumsq[(P, B)](g, part, n, P=P, BLOCK=BLOCK)
    _normalise[(triton.cdiv(n, BLOCK), B)](g, part, x, n, P=P, BLOCK=BLOCK)
    for i, (ca, cb, cc) in enumerate(coef):
        _gemm(x, x.transpose(1, 2), None, r, 0.0, 1.0)
        _gemm(r, r, r, s, cb, cc)
        dst = out if i == len(coef) - 1 else y
        _gemm(s, x, x, dst, ca, 1.0)
        x, y = y, x
    return out.view(shape)


def look(G):
    """What a careful author may ask, and every way to see a tensor otherwise."""
    s = torch.empty((2, 3, 4), dtype=torch.float32, device=G.device)
    torch.atleast_1d(s), torch.atleast_2d(s), torch.broadcast_to(s, (5, 2, 3, 4)), torch.diagonal(s), torch.flatten(s)
    torch.movedim(s, 0, 1), torch.permute(s, (2, 0, 1)), torch.ravel(s), torch.swapaxes(s, 0, 1), torch.swapdims(s, 0, 1)
    torch.unflatten(s, 2, (2, 2)), torch.unbind(s), torch.chunk(s, 2), torch.squeeze(s), torch.adjoint(s)
    s.mT, s.mH, s[0].T, s.expand_as(s), s.view_as(s), s.reshape_as(s), s.detach(), s.narrow(0, 0, 1), s.tensor_split(2)
    s.new_empty((2,)), s.new_full((2,), 1.0), s.new_ones((1,)), s.to(G.device)
    torch.full_like(s, 2.0), torch.ones_like(s), torch.empty_strided((2, 2), (1, 2), device=s.device)
    if not G.is_cuda:  # a graph holds no copies from the host
        torch.tensor([1, 2], device=s.device), torch.tensor(0.5, device=s.device), s.new_tensor([1.0, 2.0])
    s.nelement(), s.get_device(), s.is_signed(), s.storage_offset(), s.itemsize, s.nbytes, s.element_size(), s.layout
    torch.numel(s), torch.is_floating_point(s), torch.is_tensor(s), s.is_contiguous(), s.is_complex(), s.requires_grad
    s.view(torch.int32).view(torch.float32), s[..., None, ::2], s.unsqueeze(0).clone()
    s[:1].fill_(1), s[1:].fill_(s[0, 0, 0]), s[0].zero_()
    s[0, 0] = 2
    s[..., :1] = 0.5
    assert torch.finfo(s.dtype).eps < 1 < torch.iinfo(torch.int32).max


@torch.no_grad()
def run(G, steps=5):
    look(G)
    return _muon(G)
