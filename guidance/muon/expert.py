"""Muon's five polynomial steps, carried out on the smaller side of each matrix (Triton, batched).

For X with Gram matrix R = X X^T one step is X <- P(R) X with P(R) = a I + b R + c R^2, and the Gram matrix of the new X
is P R P. So a segment of steps needs square products only: Q <- P Q collects the action, R <- P R P advances, and X is
touched once, when Q is applied. Segments: coefficients 0 and 1, then 2, 3 and 4; between them X is stored in float16
and R rebuilt.

Every square matrix here is a polynomial in R and therefore symmetric: one triangle of tiles is computed, and each tile
is stored twice. P is stored with its term a I, so the first P of a segment is its first Q. Adding a Y to
(b R + c R^2) Y in float32 instead is no more accurate, and reads a third matrix in nine of fourteen square products.

Products run at the power limit of an H200, not at its clock limit, so what counts is work and traffic left out rather
than latency hidden: tiles of 128 by 256, the largest whose sums fit in registers, move the fewest bytes for a product;
operands and results travel through tensor descriptors (TMA), which need no registers for addresses; one program a
multiprocessor walks over its tiles. Buffers hold each matrix with its smaller side first and padded with zeros to whole
blocks; past the last column a descriptor reads zeros and stores nothing.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

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
    """x[b] = fp16(g[b] / (||g[b]|| + 1e-7)), zeros in the padding.

    The last matrices come first: they were summed last, and are still in the cache.
    """
    r = tl.program_id(1) * BR + tl.arange(0, BR)
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    batch = (tl.num_programs(2) - 1 - tl.program_id(2)).to(tl.int64)
    norm = tl.sqrt(tl.sum(tl.load(parts + batch * PARTS + tl.arange(0, PARTS)), axis=0)) + 1e-7
    inside = (r[:, None] < rows) & (c[None, :] < columns)
    value = tl.load(g + batch * stride_b + r[:, None] * stride_r + c[None, :] * stride_c, mask=inside, other=0.0).to(
        tl.float32
    )
    place = x + batch * x_rows * x_pitch + r[:, None] * x_pitch + c[None, :]
    tl.store(place, (value / norm).to(tl.float16), mask=(r[:, None] < x_rows) & (c[None, :] < x_pitch))


@triton.jit
def _grouped(index, rows, columns, GROUP: tl.constexpr):
    """Row and column of the index-th tile: GROUP rows at a time, column by column, so that operands stay in cache."""
    per_group = GROUP * columns
    first = index // per_group * GROUP
    height = tl.minimum(rows - first, GROUP)
    return first + index % per_group % height, index % per_group // height


@triton.jit
def _product(
    left, right, left_row, right_row, column, depth,
    RIGHT_IS_ROWS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """A tile of left @ right, or of left @ right^T. *_row is where the tile's matrix, or its rows, begin."""
    sums = tl.zeros((BM, BN), tl.float32)
    for k in range(0, depth, BK):
        a = left.load([left_row, k])
        if RIGHT_IS_ROWS:
            sums = tl.dot(a, right.load([right_row + column, k]).T, sums)
        else:
            sums = tl.dot(a, right.load([right_row + k, column]), sums)
    return sums


@triton.jit
def _halves(tile, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Left and right half of a tile. Stored one after the other they need half of the shared memory."""
    return tl.split(tl.permute(tl.reshape(tile, (ROWS, 2, COLUMNS // 2)), (0, 2, 1)))


@triton.jit
def _store_symmetric(
    sums, addend, out, base, row, column, valid, product_scale, addend_scale, identity_scale,
    IS_POLYNOMIAL: tl.constexpr, T: tl.constexpr,
):  # fmt: skip
    """Stores a T by T tile of a symmetric result, and off the diagonal its transpose as well."""
    if IS_POLYNOMIAL:
        sums = product_scale * sums + addend_scale * addend.load([base + row, column]).to(tl.float32)
        m = tl.arange(0, T)
        on_diagonal = (m[:, None] == m[None, :]) & (row + m[:, None] < tl.where(row == column, valid, 0))
        sums += tl.where(on_diagonal, identity_scale, 0.0)
    tile = sums.to(tl.float16)
    out.store([base + row, column], tile)
    if row != column:
        out.store([base + column, row], tile.T)


@triton.jit
def _symmetric_product(
    left, right, right_narrow, addend, out, batches, depth, size, valid,
    product_scale, addend_scale, identity_scale,
    RIGHT_IS_ROWS: tl.constexpr, IS_POLYNOMIAL: tl.constexpr, T: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """out = left @ right, for results that are symmetric.

    RIGHT_IS_ROWS: out is left @ right^T (a Gram product: left = right = X). Otherwise right is a symmetric square.
    IS_POLYNOMIAL: out = product_scale * left @ right + addend_scale * addend + identity_scale * I, the diagonal of the
    padding left out.

    A triangle of 2T by 2T blocks. Tiles are T by 2T, two for a block below the diagonal and one for the lower half of
    a block on it: as many as a square of blocks has, so a place above the diagonal of that square stands for the upper
    half of its mirror image. What is left is a T by T tile in the upper half of each block on the diagonal.
    """
    blocks = size // (2 * T)
    tiles = batches * blocks * blocks
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0)):
        base = tile // (blocks * blocks) * size
        i, j = _grouped(tile % (blocks * blocks), blocks, blocks, GROUP)
        row = tl.where(j <= i, 2 * i + 1, 2 * j) * T
        column = tl.minimum(i, j) * 2 * T
        sums = _product(left, right, base + row, base, column, depth, RIGHT_IS_ROWS, T, 2 * T, BK)
        first, second = _halves(sums, T, 2 * T)
        _store_symmetric(
            first, addend, out, base, row, column, valid,
            product_scale, addend_scale, identity_scale, IS_POLYNOMIAL, T,
        )  # fmt: skip
        _store_symmetric(
            second, addend, out, base, row, column + T, valid,
            product_scale, addend_scale, identity_scale, IS_POLYNOMIAL, T,
        )  # fmt: skip
    # The programs that had a wide tile less than the others begin.
    begin = (tl.program_id(0) + tl.num_programs(0) - tiles % tl.num_programs(0)) % tl.num_programs(0)
    for tile in tl.range(begin, batches * blocks, tl.num_programs(0)):
        base = tile // blocks * size
        row = tile % blocks * 2 * T
        sums = _product(left, right_narrow, base + row, base, row, depth, RIGHT_IS_ROWS, T, T, BK)
        _store_symmetric(
            sums, addend, out, base, row, row, valid,
            product_scale, addend_scale, identity_scale, IS_POLYNOMIAL, T,
        )  # fmt: skip


@triton.jit
def _store_rectangle(
    tile, out, batch, row, column, rows, columns, stride_b, stride_r, stride_c,
    DESCRIBED: tl.constexpr, T: tl.constexpr,
):  # fmt: skip
    if DESCRIBED:
        out.store([batch * rows + row, column], tile.to(out.dtype))
    else:
        m = row + tl.arange(0, T)
        n = column + tl.arange(0, T)
        place = out + batch.to(tl.int64) * stride_b + m[:, None] * stride_r + n[None, :] * stride_c
        tl.store(place, tile.to(out.dtype.element_ty), mask=(m[:, None] < rows) & (n[None, :] < columns))


@triton.jit
def _apply(
    q, x, out, batches, size, rows, columns, stride_b, stride_r, stride_c,
    DESCRIBED: tl.constexpr, T: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """out = q @ x in the dtype of `out`; rows and columns bound what is stored.

    DESCRIBED: `out` is a descriptor over the rows of all matrices, which have `size` rows each: a tile of padding would
    be stored over the next matrix. Otherwise it is a pointer.
    """
    row_tiles = size // T
    column_tiles = tl.cdiv(columns, 2 * T)
    per_matrix = row_tiles * column_tiles
    # Flattened with the loop over the depth: the first loads of a tile are under way while the last one is stored.
    for tile in tl.range(tl.program_id(0), batches * per_matrix, tl.num_programs(0), flatten=True):
        batch = tile // per_matrix
        i, j = _grouped(tile % per_matrix, row_tiles, column_tiles, GROUP)
        row = i * T
        column = j * 2 * T
        sums = _product(q, x, batch * size + row, batch * size, column, size, False, T, 2 * T, BK)
        first, second = _halves(sums, T, 2 * T)
        _store_rectangle(
            first, out, batch, row, column, rows, columns, stride_b, stride_r, stride_c, DESCRIBED, T
        )  # fmt: skip
        _store_rectangle(
            second, out, batch, row, column + T, rows, columns, stride_b, stride_r, stride_c, DESCRIBED, T
        )  # fmt: skip


def _round_up(value, multiple):
    return triton.cdiv(value, multiple) * multiple


class _Shape:
    """Sizes of one call, the smaller side first: padded to whole blocks, the larger one to whole cache lines."""

    def __init__(self, G, batch, small, large):
        self.batch, self.small, self.large = batch, small, large
        self.tile = 128 if small > 128 else 64 if small > 64 else 32
        self.step = min(self.tile, 64)
        self.rows = _round_up(small, 2 * self.tile)
        # Rows begin on whole cache lines: with 16-byte rows the Gram product was bound by the second-level cache.
        self.pitch = _round_up(large, 64)
        self.warps = 8 if self.tile == 128 else 4
        # The interpreter runs one program after the other: one is enough.
        self.programs = torch.cuda.get_device_properties(G.device).multi_processor_count if G.is_cuda else 1


def _described(matrices, rows, columns):
    """Descriptor over the rows of all matrices of a batch, for tiles of rows by columns."""
    return TensorDescriptor.from_tensor(matrices.view(-1, matrices.shape[-1]), [rows, columns])


def _symmetric(left, right, out, shape, gram=False, polynomial=None):
    """out = left @ right; gram: left @ right^T; with a polynomial (a, b, c): a I + b right + c left @ right."""
    tile, step = shape.tile, shape.step
    wide, narrow = [(width, step) if gram else (step, width) for width in (2 * tile, tile)]
    a, b, c = polynomial or (0.0, 0.0, 1.0)
    blocks = shape.rows // (2 * tile)
    _symmetric_product[(min(shape.batch * blocks * blocks, shape.programs),)](
        _described(left, tile, step), _described(right, *wide), _described(right, *narrow),
        _described(right, tile, tile), _described(out, tile, tile),
        shape.batch, left.shape[-1], shape.rows, shape.small, c, b, a,
        RIGHT_IS_ROWS=gram, IS_POLYNOMIAL=polynomial is not None,
        T=tile, BK=step, GROUP=8, num_warps=shape.warps, num_stages=3,
    )  # fmt: skip


def _commit(q, x, out, shape, rows, columns):
    tile, step = shape.tile, shape.step
    described = out.is_contiguous() and columns % 8 == 0 and rows == shape.rows
    tiles = shape.batch * (shape.rows // tile) * triton.cdiv(columns, 2 * tile)
    _apply[(min(tiles, shape.programs),)](
        _described(q, tile, step), _described(x, step, 2 * tile), _described(out, tile, tile) if described else out,
        shape.batch, shape.rows, rows, columns, *out.stride(),
        DESCRIBED=described, T=tile, BK=step, GROUP=8, num_warps=shape.warps, num_stages=3,
    )  # fmt: skip


def _compose(segment, squares, shape):
    """The action of one segment of coefficients, from its Gram matrix, which is the first of four squares.

    All four are overwritten.
    """
    r, q, p, spare = squares
    _symmetric(r, r, q, shape, polynomial=segment[0])
    newest = q
    for coefficients in segment[1:]:
        _symmetric(newest, r, spare, shape)
        _symmetric(newest, spare, r, shape)
        _symmetric(r, r, p, shape, polynomial=coefficients)
        _symmetric(p, q, spare, shape)
        q, spare, newest = spare, q, p
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
    shape = _Shape(G, batch, small, large)
    half = {"dtype": torch.float16, "device": G.device}
    count = min(MOST_PARTS, triton.next_power_of_2(triton.cdiv(small, NORM_ROWS)))
    parts = torch.empty((batch, count), dtype=torch.float32, device=G.device)
    x = torch.empty((batch, shape.rows, shape.pitch), **half)
    restarted = torch.empty_like(x)
    squares = [torch.empty((batch, shape.rows, shape.rows), **half) for _ in range(4)]

    _sum_squares[(count, batch)](g, parts, small, large, *g.stride(), PARTS=count, BR=NORM_ROWS, BC=1024, num_warps=8)
    _normalise[(triton.cdiv(shape.pitch, 1024), triton.cdiv(shape.rows, NORM_ROWS), batch)](
        g, parts, x, small, large, *g.stride(), shape.rows, shape.pitch,
        PARTS=count, BR=NORM_ROWS, BC=1024, num_warps=8,
    )  # fmt: skip
    first, second = SEGMENTS
    _symmetric(x, x, squares[0], shape, gram=True)
    q = _compose(first, squares, shape)
    _commit(q, x, restarted, shape, shape.rows, shape.pitch)
    _symmetric(restarted, restarted, squares[0], shape, gram=True)
    q = _compose(second, squares, shape)
    _commit(q, restarted, result, shape, small, large)
    return out
