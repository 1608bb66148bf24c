"""First version: the loop of the reference as it stands, one general product kernel used three times a step."""

import torch
import triton
import triton.language as tl

COEFFICIENTS = (
    (7.892582874424408, -20.38301394587957, 13.555306149406924),
    (3.911484868135431, -2.5464635929060884, 0.4268988319673074),
    (3.760657955697423, -2.512819018216563, 0.4323647349070073),
    (3.160399673686287, -2.149649518898498, 0.3996366907664389),
    (2.1910971618617303, -1.441662010214663, 0.328146487623155),
)
CHUNK = 4096
TILE_K = 128


@triton.jit
def square_sums(g_ptr, sums_ptr, SIZE: tl.constexpr, PARTS: tl.constexpr, CHUNK: tl.constexpr):
    """Each program adds up the squares of every PARTS-th chunk of one matrix."""
    part = tl.program_id(0)
    matrix = tl.program_id(1)
    g_ptr += matrix.to(tl.int64) * SIZE
    total = tl.zeros((CHUNK,), dtype=tl.float32)
    for start in range(0, SIZE, PARTS * CHUNK):
        at = start + part * CHUNK + tl.arange(0, CHUNK)
        g = tl.load(g_ptr + at, mask=at < SIZE, other=0.0).to(tl.float32)
        total += g * g
    tl.store(sums_ptr + matrix * PARTS + part, tl.sum(total, axis=0))


@triton.jit
def scale_to_unit_norm(
    g_ptr, sums_ptr, x_ptr, SIZE: tl.constexpr, PARTS: tl.constexpr, PARTS_PADDED: tl.constexpr, CHUNK: tl.constexpr
):
    matrix = tl.program_id(1)
    part = tl.arange(0, PARTS_PADDED)
    sums = tl.load(sums_ptr + matrix * PARTS + part, mask=part < PARTS, other=0.0)
    norm = tl.sqrt(tl.sum(sums, axis=0)) + 1e-7
    at = tl.program_id(0) * CHUNK + tl.arange(0, CHUNK)
    base = matrix.to(tl.int64) * SIZE
    g = tl.load(g_ptr + base + at, mask=at < SIZE, other=0.0).to(tl.float32)
    tl.store(x_ptr + base + at, (g / norm).to(tl.float16), mask=at < SIZE)


@triton.jit
def product(
    a_ptr,
    b_ptr,
    d_ptr,
    out_ptr,
    alpha,
    beta,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    B_STRIDE_K: tl.constexpr,
    B_STRIDE_N: tl.constexpr,
    ADD: tl.constexpr,
    TILE_M: tl.constexpr,
    TILE_N: tl.constexpr,
    TILE_K: tl.constexpr,
):
    """out = alpha * A @ B (+ beta * D) for a batch: A [M, K] and D, out [M, N] by rows, B [K, N] by its strides."""
    tiles_n: tl.constexpr = (N + TILE_N - 1) // TILE_N
    tile = tl.program_id(0)
    matrix = tl.program_id(1).to(tl.int64)
    m = (tile // tiles_n) * TILE_M + tl.arange(0, TILE_M)
    n = (tile % tiles_n) * TILE_N + tl.arange(0, TILE_N)
    k = tl.arange(0, TILE_K)
    a_at = a_ptr + matrix * (M * K) + m[:, None] * K + k[None, :]
    b_at = b_ptr + matrix * (K * N) + k[:, None] * B_STRIDE_K + n[None, :] * B_STRIDE_N
    acc = tl.zeros((TILE_M, TILE_N), dtype=tl.float32)
    in_rows, in_columns = m[:, None] < M, n[None, :] < N
    for start in range(0, K, TILE_K):
        a = tl.load(a_at, mask=in_rows & (k[None, :] < K - start), other=0.0)
        b = tl.load(b_at, mask=(k[:, None] < K - start) & in_columns, other=0.0)
        acc = tl.dot(a, b, acc)
        a_at += TILE_K
        b_at += TILE_K * B_STRIDE_K
    at = matrix * (M * N) + m[:, None] * N + n[None, :]
    inside = in_rows & in_columns
    acc *= alpha
    if ADD:
        acc += beta * tl.load(d_ptr + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out_ptr + at, acc.to(out_ptr.dtype.element_ty), mask=inside)


def multiply(a, b, out, transposed=False, alpha=1.0, d=None, beta=0.0):
    batch, m, n = out.shape
    k = a.shape[-1]
    product[(triton.cdiv(m, 128) * triton.cdiv(n, 128), batch)](
        a,
        b,
        out if d is None else d,
        out,
        alpha,
        beta,
        M=m,
        N=n,
        K=k,
        B_STRIDE_K=1 if transposed else n,
        B_STRIDE_N=k if transposed else 1,
        ADD=d is not None,
        TILE_M=128,
        TILE_N=128,
        TILE_K=TILE_K,
        num_warps=8,
        num_stages=3,
    )


def run(G, steps=5):
    if steps != 5:
        raise ValueError("steps must be 5")
    if G.ndim < 2:
        raise ValueError("G must have at least two dimensions")
    g = G.reshape(-1, G.shape[-2], G.shape[-1])
    batch, rows, columns = g.shape
    size = rows * columns
    parts = min(64, triton.cdiv(size, CHUNK))
    sums = torch.empty((batch, parts), dtype=torch.float32, device=G.device)
    x = torch.empty((batch, rows, columns), dtype=torch.float16, device=G.device)
    x_next = torch.empty((batch, rows, columns), dtype=torch.float16, device=G.device)
    gram = torch.empty((batch, rows, rows), dtype=torch.float16, device=G.device)
    action = torch.empty((batch, rows, rows), dtype=torch.float16, device=G.device)
    result = torch.empty(g.shape, dtype=G.dtype, device=G.device)

    square_sums[(parts, batch)](g, sums, SIZE=size, PARTS=parts, CHUNK=CHUNK)
    scale_to_unit_norm[(triton.cdiv(size, CHUNK), batch)](
        g, sums, x, SIZE=size, PARTS=parts, PARTS_PADDED=triton.next_power_of_2(parts), CHUNK=CHUNK
    )
    for step, (a, b, c) in enumerate(COEFFICIENTS):
        multiply(x, x, gram, transposed=True)
        multiply(gram, gram, action, alpha=c, d=gram, beta=b)
        target = result if step == 4 else x_next
        multiply(action, x, target, d=x, beta=a)
        x, x_next = target, x
    return result.reshape(G.shape)
