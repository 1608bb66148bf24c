"""Muon's five polynomial steps, carried out on the smaller side of each matrix (Triton, batched).

For X with Gram matrix R = X X^T one step is X <- P(R) X with P(R) = a I + b R + c R^2, and the Gram matrix of the new X
is P R P. So a segment of steps needs square products only: Q <- P Q collects the action, R <- P R P advances, and X is
touched once, when Q is applied. Segments: coefficients 0 and 1, then 2, 3 and 4; between them X is stored in float16
and R rebuilt.

Every square matrix here is a polynomial in R and therefore symmetric: one triangle of tiles is computed, and each tile
is stored twice. The identity is not rounded into an operand of a step: with Z = b R + c R^2, P Y is a Y + Z Y, and the
first term is added in float32. Only the first Q of a segment, a I + Z, holds it.

Private buffers are padded with zeros to whole tiles, smaller side first, so that no product needs a mask in its inner
loop and rows start at addresses that vector loads can use.
"""

import torch
import triton
import triton.language as tl

SEGMENTS = (
    (
        (7.892582874424408, -20.38301394587957, 13.555306149406924),
        (3.911484868135431, -2.5464635929060884, 0.4268988319673074),
    ),
    (
        (3.760657955697423, -2.512819018216563, 0.4323647349070073),
        (3.160399673686287, -2.149649518898498, 0.3996366907664389),
        (2.1910971618617303, -1.441662010214663, 0.328146487623155),
    ),
)
MOST_PARTS = 128
"""Partial sums of squares of a matrix: enough programs to read a batch at full bandwidth."""
NORM_ROWS = 4


@triton.jit
def _sum_squares(
    g, parts, rows, columns, stride_b, stride_r, stride_c,
    PARTS: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """parts[b, p] = sum of g[b]^2 over the row blocks p, p + PARTS, ..."""
    part = tl.program_id(0)
    batch = tl.program_id(1).to(tl.int64)
    base = g + batch * stride_b
    total = tl.zeros((BR, BC), tl.float32)
    for first in range(part * BR, rows, PARTS * BR):
        r = first + tl.arange(0, BR)
        for start in range(0, columns, BC):
            c = start + tl.arange(0, BC)
            inside = (r[:, None] < rows) & (c[None, :] < columns)
            value = tl.load(base + r[:, None] * stride_r + c[None, :] * stride_c, mask=inside, other=0.0)
            wide = value.to(tl.float32)
            total += wide * wide
    tl.store(parts + batch * PARTS + part, tl.sum(tl.sum(total, axis=1), axis=0))


@triton.jit
def _normalise(
    g, parts, x, rows, columns, stride_b, stride_r, stride_c, x_rows, x_pitch,
    PARTS: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """x[b] = fp16(g[b] / (||g[b]|| + 1e-7)), zeros in the padding."""
    r = tl.program_id(0) * BR + tl.arange(0, BR)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    batch = tl.program_id(2).to(tl.int64)
    norm = tl.sqrt(tl.sum(tl.load(parts + batch * PARTS + tl.arange(0, PARTS)), axis=0)) + 1e-7
    inside = (r[:, None] < rows) & (c[None, :] < columns)
    value = tl.load(g + batch * stride_b + r[:, None] * stride_r + c[None, :] * stride_c, mask=inside, other=0.0).to(
        tl.float32
    )
    place = x + batch * x_rows * x_pitch + r[:, None] * x_pitch + c[None, :]
    tl.store(place, (value / norm).to(tl.float16), mask=(r[:, None] < x_rows) & (c[None, :] < x_pitch))


@triton.jit
def _triangle_tile(index):
    """Row and column of the index-th tile of a lower triangle, counted row by row."""
    row = ((tl.sqrt(8.0 * index.to(tl.float32) + 1.0) - 1.0) * 0.5).to(tl.int32)
    row = tl.where(row * (row + 1) // 2 > index, row - 1, row)
    row = tl.where((row + 1) * (row + 2) // 2 <= index, row + 1, row)
    return row, index - row * (row + 1) // 2


@triton.jit
def _symmetric_product(
    left, right, addend, out, out_identity, depth, left_pitch, right_pitch, size, valid,
    stride_left, stride_right, product_scale, addend_scale, identity_scale,
    RIGHT_IS_ROWS: tl.constexpr, HAS_ADDEND: tl.constexpr, HAS_IDENTITY: tl.constexpr,
    BT: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """out = product_scale * left @ right + addend_scale * addend, for results that are symmetric.

    RIGHT_IS_ROWS: out is left @ right^T (a Gram product: left = right = X). Otherwise right is a symmetric square.
    HAS_IDENTITY: also out_identity = out + identity_scale * I, the diagonal of the padding left out.
    One program a tile of the lower triangle: the accumulator is stored, and stored again transposed.
    """
    row, column = _triangle_tile(tl.program_id(0))
    batch = tl.program_id(1).to(tl.int64)
    m = row * BT + tl.arange(0, BT)
    n = column * BT + tl.arange(0, BT)
    k = tl.arange(0, BK)
    a = left + batch * stride_left + m[:, None] * left_pitch + k[None, :]
    if RIGHT_IS_ROWS:
        b = right + batch * stride_right + k[:, None] + n[None, :] * right_pitch
        b_step = BK
    else:
        b = right + batch * stride_right + k[:, None] * right_pitch + n[None, :]
        b_step = BK * right_pitch
    sums = tl.zeros((BT, BT), tl.float32)
    for _ in range(0, depth, BK):
        sums = tl.dot(tl.load(a), tl.load(b), sums)
        a += BK
        b += b_step
    sums *= product_scale
    square = batch * size * size
    direct = square + m[:, None] * size + n[None, :]
    mirrored = square + n[:, None] * size + m[None, :]
    if HAS_ADDEND:
        sums += addend_scale * tl.load(addend + direct).to(tl.float32)
    tile = sums.to(tl.float16)
    tl.store(out + direct, tile)
    if row != column:
        tl.store(out + mirrored, tl.trans(tile))
    if HAS_IDENTITY:
        on_diagonal = (m[:, None] == n[None, :]) & (m[:, None] < valid)
        tile = (sums + tl.where(on_diagonal, identity_scale, 0.0)).to(tl.float16)
        tl.store(out_identity + direct, tile)
        if row != column:
            tl.store(out_identity + mirrored, tl.trans(tile))


@triton.jit
def _apply(
    q, x, out, size, x_pitch, rows, columns, stride_x, stride_b, stride_r, stride_c,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """out = q @ x in the dtype of `out`; rows and columns bound what is stored."""
    row_tiles = size // BM
    per_group = GROUP * (x_pitch // BN)
    first = tl.program_id(0) // per_group * GROUP
    height = tl.minimum(row_tiles - first, GROUP)
    row = first + tl.program_id(0) % per_group % height
    column = tl.program_id(0) % per_group // height
    batch = tl.program_id(1).to(tl.int64)
    m = row * BM + tl.arange(0, BM)
    n = column * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    a = q + batch * size * size + m[:, None] * size + k[None, :]
    b = x + batch * stride_x + k[:, None] * x_pitch + n[None, :]
    sums = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, size, BK):
        sums = tl.dot(tl.load(a), tl.load(b), sums)
        a += BK
        b += BK * x_pitch
    place = out + batch * stride_b + m[:, None] * stride_r + n[None, :] * stride_c
    tl.store(place, sums.to(out.dtype.element_ty), mask=(m[:, None] < rows) & (n[None, :] < columns))


def _tiles(small, large):
    """Square tile, depth step and width of the rectangular tile, from the shape alone."""
    if small > 64:
        return 128, 64, 256 if large >= 4096 else 128
    return (64, 64, 128) if small > 32 else (32, 32, 128)


def _round_up(value, multiple):
    return triton.cdiv(value, multiple) * multiple


class _Shape:
    """Sizes of one call: the smaller side first, each side padded to whole tiles."""

    def __init__(self, batch, small, large):
        self.batch, self.small, self.large = batch, small, large
        self.tile, self.step, self.wide = _tiles(small, large)
        self.rows = _round_up(small, self.tile)
        self.pitch = _round_up(large, max(self.wide, self.step))
        self.warps = 8 if self.tile == 128 else 4

    @property
    def triangle(self):
        count = self.rows // self.tile
        return count * (count + 1) // 2, self.batch


def _gram(x, out, shape):
    _symmetric_product[shape.triangle](
        x, x, x, out, out, shape.pitch, shape.pitch, shape.pitch, shape.rows, shape.small,
        x.stride(0), x.stride(0), 1.0, 0.0, 0.0,
        RIGHT_IS_ROWS=True, HAS_ADDEND=False, HAS_IDENTITY=False,
        BT=shape.tile, BK=shape.step, num_warps=shape.warps, num_stages=4,
    )  # fmt: skip


def _square(left, right, addend, out, shape, product_scale, addend_scale, with_identity=None, identity_scale=0.0):
    """out = product_scale * left @ right + addend_scale * addend; with_identity also gets identity_scale * I."""
    size = shape.rows
    _symmetric_product[shape.triangle](
        left, right, addend, out, out if with_identity is None else with_identity, size, size, size, size, shape.small,
        left.stride(0), right.stride(0), product_scale, addend_scale, identity_scale,
        RIGHT_IS_ROWS=False, HAS_ADDEND=True, HAS_IDENTITY=with_identity is not None,
        BT=shape.tile, BK=shape.step, num_warps=shape.warps, num_stages=4,
    )  # fmt: skip


def _commit(q, x, out, shape, rows, columns):
    tiles = shape.rows // shape.tile * (shape.pitch // shape.wide)
    _apply[(tiles, shape.batch)](
        q, x, out, shape.rows, shape.pitch, rows, columns, x.stride(0), *out.stride(),
        BM=shape.tile, BN=shape.wide, BK=shape.step, GROUP=8, num_warps=8 if shape.tile == 128 else 4, num_stages=3,
    )  # fmt: skip


def _compose(segment, r, z, t, q, spare, shape):
    """The action of one segment of coefficients, from its Gram matrix r. All five buffers are overwritten."""
    for position, (a, b, c) in enumerate(segment):
        if position == 0:
            _square(r, r, r, z, shape, c, b, with_identity=q, identity_scale=a)
        else:
            _square(r, r, r, z, shape, c, b)
            _square(z, q, q, spare, shape, 1.0, a)
            q, spare = spare, q
        if position + 1 < len(segment):
            _square(z, r, r, t, shape, 1.0, a)
            _square(z, t, t, r, shape, 1.0, a)
    return q


def run(G, steps=5):
    if steps != 5:
        raise ValueError("only the five declared steps are implemented")
    if G.ndim < 2:
        raise ValueError("a matrix, or a batch of matrices, is needed")
    g = G.reshape(-1, *G.shape[-2:])
    out = torch.empty(G.shape, dtype=G.dtype, device=G.device)
    result = out.view(g.shape)
    if g.shape[1] > g.shape[2]:
        g, result = g.mT, result.mT
    batch, small, large = g.shape
    if out.numel() == 0:
        return out
    shape = _Shape(batch, small, large)
    half = {"dtype": torch.float16, "device": G.device}
    count = min(MOST_PARTS, triton.next_power_of_2(triton.cdiv(small, NORM_ROWS)))
    parts = torch.empty((batch, count), dtype=torch.float32, device=G.device)
    x = torch.empty((batch, shape.rows, shape.pitch), **half)
    restarted = torch.empty_like(x)
    squares = [torch.empty((batch, shape.rows, shape.rows), **half) for _ in range(5)]

    _sum_squares[(count, batch)](g, parts, small, large, *g.stride(), PARTS=count, BR=NORM_ROWS, BC=1024, num_warps=8)
    _normalise[(triton.cdiv(shape.rows, 16), triton.cdiv(shape.pitch, 256), batch)](
        g, parts, x, small, large, *g.stride(), shape.rows, shape.pitch, PARTS=count, BR=16, BC=256, num_warps=8
    )
    first, second = SEGMENTS
    _gram(x, squares[0], shape)
    q = _compose(first, *squares, shape)
    _commit(q, x, restarted, shape, shape.rows, shape.pitch)
    _gram(restarted, squares[0], shape)
    q = _compose(second, *squares, shape)
    _commit(q, restarted, result, shape, small, large)
    return out
