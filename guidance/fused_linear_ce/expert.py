"""Linear layer and cross-entropy with both gradients, over two chunks of tokens (Triton).

A chunk of logits is kept as exponentials: each tile of z = x w^T is stored as bf16(exp(z - m)), where m is the largest
z of its row within the tile, in float32, together with m and the row's sum over the tile. bfloat16 keeps an exponential
to a relative 2^-9 wherever z lies; the same 16 bits for z itself would lose 2^-9 of z in the exponent. So a chunk takes
2 bytes an element and half of the tokens fit the bound on memory. Every chunk less saves two readings of w and one
reading and writing of dw_acc (6 GB at the first workload).

The small sums give the row's normaliser without another pass. One sweep then turns the exponentials into the gradient,
in place: times exp(m - lse) / n, and at the target exp(z_target - lse) - 1 from float32. Both gradient products read
it.

Tiles of dx sum over the whole vocabulary, 31 to 63 times as long as tiles of dw sum over the chunk, and there are two
to four of them for each multiprocessor: alone they would leave many idle in the end. Both products are one launch, the
long tiles first; programs that have one of those less take as many short ones more.

Products run on tiles of 128 by 256, operands and results through tensor descriptors (TMA), one program a
multiprocessor. Sums of dw go to dw_acc by the descriptor's own addition: the memory system reads, adds and writes, and
no program waits for it.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

NO_TARGET = -100
CHUNKS = 2
GROUP = 16
LOG2_E = tl.constexpr(1.4426950408889634)
LOG_2 = tl.constexpr(0.6931471805599453)


@triton.jit
def _share(target, share, tokens, NO_TARGET: tl.constexpr, BLOCK: tl.constexpr):
    """share = 1 / number of tokens that count, or 0 where none does."""
    counted = tl.zeros((BLOCK,), tl.int32)
    for first in range(0, tokens, BLOCK):
        i = first + tl.arange(0, BLOCK)
        counted += (tl.load(target + i, mask=i < tokens, other=NO_TARGET) != NO_TARGET).to(tl.int32)
    count = tl.sum(counted, axis=0)
    tl.store(share, tl.where(count > 0, 1.0 / tl.maximum(count, 1).to(tl.float32), 0.0))


@triton.jit
def _target_logits(
    x, w, target, picked, tokens, width, NO_TARGET: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """picked[i] = x[i] . w[target[i]] in float32; 0 for ignored tokens."""
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    entry = tl.load(target + i, mask=i < tokens, other=NO_TARGET)
    counts = (entry != NO_TARGET)[:, None]
    left = x + i.to(tl.int64)[:, None] * width
    right = w + entry.to(tl.int64)[:, None] * width
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(0, width, BLOCK):
        h = start + tl.arange(0, BLOCK)[None, :]
        inside = counts & (h < width)
        a = tl.load(left + h, mask=inside, other=0.0).to(tl.float32)
        total += a * tl.load(right + h, mask=inside, other=0.0).to(tl.float32)
    tl.store(picked + i, tl.sum(total, axis=1), mask=i < tokens)


@triton.jit
def _grouped(index, rows, columns, GROUP: tl.constexpr):
    """Row and column of the index-th tile: GROUP rows at a time, column by column, so that operands stay in cache."""
    per_group = GROUP * columns
    first = index // per_group * GROUP
    height = tl.minimum(rows - first, GROUP)
    return first + index % per_group % height, index % per_group // height


@triton.jit
def _exponentials(
    x, w, e, peaks, sums, first, rows, row_tiles, column_tiles, entries, width,
    T: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Tiles of T by 2T of e = exp(z - peak) for the chunk of `rows` tokens that begins at `first`.

    peaks[j, i] and sums[j, i] are the largest z (in powers of two) and the sum of e for token i in the j-th tile.
    """
    for tile in tl.range(tl.program_id(0), row_tiles * column_tiles, tl.num_programs(0), flatten=True):
        i, j = _grouped(tile, row_tiles, column_tiles, GROUP)
        z = tl.zeros((T, 2 * T), tl.float32)
        for k in range(0, width, BK):
            z = tl.dot(x.load([first + i * T, k]), w.load([j * 2 * T, k]).T, z)
        column = j * 2 * T + tl.arange(0, 2 * T)
        z = tl.where(column[None, :] < entries, z * LOG2_E, float("-inf"))
        peak = tl.max(z, axis=1)
        z = tl.exp2(z - peak[:, None])
        place = j * rows + i * T + tl.arange(0, T)
        tl.store(peaks + place, peak)
        tl.store(sums + place, tl.sum(z, axis=1))
        e.store([i * T, j * 2 * T], z.to(tl.bfloat16))


@triton.jit
def _normalisers(peaks, sums, lse, first, rows, tokens, column_tiles, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """lse of each token of a chunk, from what its tiles left."""
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    top = tl.full((BLOCK, ROWS), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK, ROWS), tl.float32)
    for start in range(0, column_tiles, BLOCK):
        j = start + tl.arange(0, BLOCK)[:, None]
        place = j * rows + i[None, :]
        peak = tl.load(peaks + place, mask=j < column_tiles, other=float("-inf"))
        part = tl.load(sums + place, mask=j < column_tiles, other=0.0)
        # A finite lower end: where a lane has seen no tile yet, -inf minus -inf would not be a number.
        higher = tl.maximum(tl.maximum(top, peak), -1e30)
        total = total * tl.exp2(top - higher) + part * tl.exp2(peak - higher)
        top = higher
    highest = tl.max(top, axis=0)
    total = tl.sum(total * tl.exp2(top - highest[None, :]), axis=0)
    tl.store(lse + first + i, (highest + tl.log2(total)) * LOG_2, mask=first + i < tokens)


@triton.jit
def _gradient_in_place(
    e, peaks, lse, picked, target, share, first, rows, tokens, pitch,
    NO_TARGET: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """e becomes (softmax - one-hot) / n, and 0 in ignored rows and in the padding."""
    j = tl.program_id(0)
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    entry = tl.load(target + first + i, mask=first + i < tokens, other=NO_TARGET)
    counts = entry != NO_TARGET
    normaliser = tl.load(lse + first + i, mask=counts, other=0.0)
    part = tl.where(counts, tl.load(share), 0.0)
    # Rows that do not count have a factor of 0, and their exponent must not make it 0 times infinity.
    exponent = tl.where(counts, tl.load(peaks + j * rows + i) - normaliser * LOG2_E, 0.0)
    at_target = (tl.exp(tl.load(picked + first + i, mask=counts, other=0.0) - normaliser) - 1.0) * part
    v = j * COLUMNS + tl.arange(0, COLUMNS)
    place = e + i.to(tl.int64)[:, None] * pitch + v[None, :]
    g = tl.load(place).to(tl.float32) * (tl.exp2(exponent) * part)[:, None]
    g = tl.where(v[None, :] == entry[:, None], at_target[:, None], g)
    tl.store(place, g.to(tl.bfloat16))


@triton.jit
def _halves(tile, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Left and right half of a tile. Stored one after the other they need half of the shared memory."""
    return tl.split(tl.permute(tl.reshape(tile, (ROWS, 2, COLUMNS // 2)), (0, 2, 1)))


@triton.jit
def _add(out, row, column, tile, REDUCES: tl.constexpr):
    """out += tile, by the memory system where descriptors reduce (the interpreter's do not)."""
    if REDUCES:
        out.atomic_add([row, column], tile)
    else:
        out.store([row, column], out.load([row, column]) + tile)


@triton.jit
def _gradients(
    g_rows, g_columns, x, w, dx, dw, first, row_tiles, entry_tiles, width_tiles, chunk, pitch, late, lead,
    REDUCES: tl.constexpr, T: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """dx = g w for the tokens of a chunk, and dw += g^T x, in tiles of T by 2T.

    Programs from `late` on have a tile of dx less; each of them takes `lead` tiles of dw ahead of the common rest.
    """
    program = tl.program_id(0)
    programs = tl.num_programs(0)
    for tile in tl.range(program, row_tiles * width_tiles, programs):
        i, j = _grouped(tile, row_tiles, width_tiles, GROUP)
        sums = tl.zeros((T, 2 * T), tl.float32)
        for v in range(0, pitch, BK):
            sums = tl.dot(g_rows.load([i * T, v]), w.load([v, j * 2 * T]), sums)
        dx.store([first + i * T, j * 2 * T], sums.to(tl.bfloat16))

    idle = programs - late
    ahead = tl.where(program < late, 0, lead)
    rest = lead * idle + program
    own = ahead + tl.cdiv(tl.maximum(entry_tiles * width_tiles - rest, 0), programs)
    for turn in tl.range(0, own):
        tile = tl.where(turn < ahead, program - late + turn * idle, rest + (turn - ahead) * programs)
        i, j = _grouped(tile, entry_tiles, width_tiles, GROUP)
        sums = tl.zeros((T, 2 * T), tl.float32)
        for c in range(0, chunk, BK):
            sums = tl.dot(g_columns.load([c, i * T]).T, x.load([first + c, j * 2 * T]), sums)
        left, right = _halves(sums, T, 2 * T)
        _add(dw, i * T, j * 2 * T, left, REDUCES)
        _add(dw, i * T, j * 2 * T + T, right, REDUCES)


@triton.jit
def _loss(lse, picked, target, share, loss, tokens, NO_TARGET: tl.constexpr, BLOCK: tl.constexpr):
    """The mean of lse - target logit over the tokens that count."""
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, tokens, BLOCK):
        i = first + tl.arange(0, BLOCK)
        counts = tl.load(target + i, mask=i < tokens, other=NO_TARGET) != NO_TARGET
        normaliser = tl.load(lse + i, mask=counts, other=0.0)
        total += normaliser - tl.load(picked + i, mask=counts, other=0.0)
    tl.store(loss, tl.sum(total, axis=0) * tl.load(share))


class _Plan:
    """Tiles, chunks and programs of one call, from its shapes."""

    def __init__(self, x, w):
        self.tokens, self.width = x.shape
        self.entries = w.shape[0]
        self.tile = 128 if self.tokens > 512 else 64 if self.tokens > 64 else 32
        self.step = min(self.tile, 64)
        self.warps = 8 if self.tile == 128 else 4
        self.row_tiles = triton.cdiv(triton.cdiv(self.tokens, CHUNKS), self.tile)
        self.rows = self.row_tiles * self.tile
        self.column_tiles = triton.cdiv(self.entries, 2 * self.tile)
        self.pitch = self.column_tiles * 2 * self.tile
        self.entry_tiles = triton.cdiv(self.entries, self.tile)
        self.width_tiles = triton.cdiv(self.width, 2 * self.tile)
        # The interpreter runs one program after the other: one is enough.
        self.programs = torch.cuda.get_device_properties(x.device).multi_processor_count if x.is_cuda else 1

    def ahead(self):
        """How many programs have one tile of dx more, and how many tiles of dw each of the others takes for it."""
        late = self.row_tiles * self.width_tiles % self.programs
        if late == 0:
            return 0, 0
        as_long = self.pitch // self.rows
        return late, min(as_long, self.entry_tiles * self.width_tiles // (self.programs - late))


def _described(matrix, rows, columns):
    return TensorDescriptor.from_tensor(matrix, [rows, columns])


def run(x, w, target, dw_acc):
    plan = _Plan(x, w)
    tokens, tile, step = plan.tokens, plan.tile, plan.step
    wide = {"dtype": torch.float32, "device": x.device}
    loss, share = torch.empty((), **wide), torch.empty((), **wide)
    lse, picked = torch.empty(tokens, **wide), torch.empty(tokens, **wide)
    dx = torch.empty_like(x)
    e = torch.empty((plan.rows, plan.pitch), dtype=torch.bfloat16, device=x.device)
    peaks, sums = [torch.empty((plan.column_tiles, plan.rows), **wide) for _ in range(2)]

    _share[(1,)](target, share, tokens, NO_TARGET=NO_TARGET, BLOCK=1024)
    _target_logits[(triton.cdiv(tokens, 4),)](
        x, w, target, picked, tokens, plan.width, NO_TARGET=NO_TARGET, ROWS=4, BLOCK=512
    )
    late, lead = plan.ahead()
    for first in range(0, tokens, plan.rows):
        _exponentials[(min(plan.row_tiles * plan.column_tiles, plan.programs),)](
            _described(x, tile, step), _described(w, 2 * tile, step), _described(e, tile, 2 * tile), peaks, sums,
            first, plan.rows, plan.row_tiles, plan.column_tiles, plan.entries, plan.width,
            T=tile, BK=step, GROUP=GROUP, num_warps=plan.warps, num_stages=3,
        )  # fmt: skip
        _normalisers[(plan.rows // 32,)](
            peaks, sums, lse, first, plan.rows, tokens, plan.column_tiles, ROWS=32, BLOCK=16
        )
        _gradient_in_place[(plan.column_tiles, plan.rows // 32)](
            e, peaks, lse, picked, target, share, first, plan.rows, tokens, plan.pitch,
            NO_TARGET=NO_TARGET, ROWS=32, COLUMNS=2 * tile, num_warps=4,
        )  # fmt: skip
        _gradients[(plan.programs,)](
            _described(e, tile, step), _described(e, step, tile), _described(x, step, 2 * tile),
            _described(w, step, 2 * tile), _described(dx, tile, 2 * tile), _described(dw_acc, tile, tile),
            first, plan.row_tiles, plan.entry_tiles, plan.width_tiles, plan.rows, plan.pitch, late, lead,
            REDUCES=x.is_cuda, T=tile, BK=step, GROUP=GROUP, num_warps=plan.warps, num_stages=3,
        )  # fmt: skip
    _loss[(1,)](lse, picked, target, share, loss, tokens, NO_TARGET=NO_TARGET, BLOCK=1024)
    return loss, lse, dx
