"""Candidates whose counts are known, or that cannot be modelled: `CASES` maps a name to a source and its arguments.

Arguments are an expression with `torch`, `device` and nothing else; a limit in seconds may follow.
"""

from __future__ import annotations

HEAD = """
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor
"""

PRODUCT = """
@triton.jit
def product(a, b, c, size, stride, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    left = a + m[:, None] * stride + k[None, :]
    right = b + k[:, None] * stride + n[None, :]
    sums = tl.zeros((BM, BN), tl.float32)
    for start in range(0, size, BK):
        sums = tl.dot(tl.load(left, mask=k[None, :] < size - start, other=0.0), tl.load(right), sums)
        left += BK
        right = right + BK * stride
    tl.store(c + m[:, None] * stride + n[None, :], sums.to(tl.float16))


def run(a, b):
    size = a.shape[0]
    c = torch.empty_like(a)
    product[(size // 128, size // 128)](a, b, c, size, a.stride(0), BM=128, BN=128, BK=64)
    return c
"""

PERSISTENT = """
@triton.jit
def product(a, b, c, size, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    columns = size // BN
    for tile in tl.range(tl.program_id(0), size // BM * columns, tl.num_programs(0)):
        sums = tl.zeros((BM, BN), tl.float32)
        for k in range(0, size, BK):
            sums = tl.dot(a.load([tile // columns * BM, k]), b.load([k, tile % columns * BN]), sums)
        c.store([tile // columns * BM, tile % columns * BN], sums.to(tl.float16))


def run(a, b):
    c = torch.empty_like(a)
    count = torch.cuda.get_device_properties(a.device).multi_processor_count
    blocks = ((a, [128, 64]), (b, [64, 128]), (c, [128, 128]))
    described = [TensorDescriptor.from_tensor(x, block) for x, block in blocks]
    product[(count,)](*described, a.shape[0], BM=128, BN=128, BK=64)
    return c
"""

BEHIND = """
@triton.jit
def behind(x, out, rows):
    tile = x.load([tl.program_id(0) * 16, 0])
    EFFECT


def run(x):
    out = torch.empty_like(x)
    described = [TensorDescriptor.from_tensor(tensor, [16, 64]) for tensor in (x, out)]
    behind[(4,)](*described, x.shape[0])
    return out
"""

FAILING_MODEL = """
from d2k_agent.evaluator.modelling import launching


def fail(*_):
    raise ZeroDivisionError("division by zero")


launching.model_launch = fail
"""

SWALLOWED = """
def run(x):
    try:
        return launched(x)
    except Exception:
        return torch.empty_like(x)
"""

FLATTENED = """
@triton.jit
def steps(out, count, EACH: tl.constexpr):
    step = 0
    place = tl.program_id(0) * count
    for _ in range(0, count * EACH):
        step = tl.where(step == EACH, 1, step + 1)
        if step == EACH:
            tl.store(out + place, 1)
            place += 1


def run(x):
    out = torch.empty((64 * 40,), dtype=torch.int32, device=x.device)
    steps[(64,)](out, 40, EACH=3)
    return out
"""

CARRIED = """
@triton.jit
def carried(x, out, SHORT: tl.constexpr):
    count = 0
    for i in range(0, SHORT):
        count = count + i % 2
    total = tl.zeros((256,), tl.float32)
    for part in range(0, count):
        total += tl.load(x + part * 256 + tl.arange(0, 256))
    tl.store(out + tl.program_id(0), tl.sum(total))


def run(x):
    out = torch.empty((64,), dtype=torch.float32, device=x.device)
    carried[(64,)](x, out, SHORT=TRIPS)
    return out
"""

SCALED = """
@triton.jit
def scaled(x, out, count, BLOCK: tl.constexpr):
    o = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + o, tl.load(x + o, mask=o < count) * 2.0, mask=o < count)


def run(x):
    out = torch.empty_like(x)
    scaled[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out
"""

RAGGED = """
@triton.jit
def ragged(counts, x, out, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for part in range(0, tl.load(counts + row)):
        total += tl.load(x + part * BLOCK + tl.arange(0, BLOCK))
    tl.store(out + row, tl.sum(total))


@triton.jit
def counted(counts, longer):
    row = tl.program_id(0)
    tl.store(longer + row, tl.load(counts + row) + 1)


def run(counts, x):
    out = torch.empty(counts.shape, dtype=torch.float32, device=counts.device)
    GIVEN
    ragged[(counts.numel(),)](counts, x, out, BLOCK=256)
    return out
"""

QUEUE = """
@triton.jit
def queue(x, out, tickets, count, BLOCK: tl.constexpr):
    ticket = tl.atomic_add(tickets, 1)
    while ticket < count:
        o = ticket * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + o, tl.load(x + o))
        ticket = tl.atomic_add(tickets, 1)


def run(x):
    out, tickets = torch.empty_like(x), torch.zeros(1, dtype=torch.int32, device=x.device)
    queue[(132,)](x, out, tickets, x.numel() // 256, BLOCK=256)
    return out
"""

TUNED = """
@triton.autotune(configs=[triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 64})], key=["size"])
@triton.jit
def product(a, b, c, size, BLOCK: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = tl.program_id(1) * 128 + tl.arange(0, 128)
    sums = tl.zeros((BLOCK, 128), tl.float32)
    for k in range(0, size, BK):
        at = k + tl.arange(0, BK)
        left = tl.load(a + m[:, None] * size + at[None, :])
        sums = tl.dot(left, tl.load(b + at[:, None] * size + n[None, :]), sums)
    tl.store(c + m[:, None] * size + n[None, :], sums.to(tl.float16))


def run(a, b):
    c, size = torch.empty_like(a), a.shape[0]
    product[lambda meta: (size // meta["BLOCK"], size // 128)](a, b, c, size, BK=64)
    return c
"""

RANKED = """
@triton.jit
def ranked(x, out, ROUNDS: tl.constexpr):
    o = tl.arange(0, 256)
    value = tl.load(x + o)
    for _ in tl.static_range(ROUNDS):
        best = tl.max(value, axis=0)
        value = tl.where(value == best, -1, value)
    tl.store(out + o + tl.program_id(0) * 256, value)


def run(x):
    out = torch.empty((64 * 256,), dtype=torch.int32, device=x.device)
    ranked[(64,)](x, out, ROUNDS=20, num_warps=WARPS)
    return out
"""

SOME = """
@triton.jit
def some(x, out, TRIPS: tl.constexpr, EACH: tl.constexpr):
    o = tl.arange(0, 256)
    total = tl.zeros((256,), tl.float32)
    for trip in range(0, TRIPS):
        if trip % EACH == 0:
            total += tl.load(x + trip * 256 + o)
    tl.store(out + tl.program_id(0) * 256 + o, total)


def run(x):
    out = torch.empty((132 * 256,), dtype=torch.float32, device=x.device)
    some[(132,)](x, out, TRIPS=400, EACH=NUMBER)
    return out
"""

CHASED = """
@triton.jit
def chased(x, out, HOPS: tl.constexpr):
    at = tl.program_id(0)
    for _ in tl.static_range(HOPS):
        at = tl.load(x + at)
    tl.store(out + tl.program_id(0), at)


def run(x):
    out = torch.empty((64,), dtype=torch.int32, device=x.device)
    chased[(64,)](x, out, HOPS=100)
    return out
"""

ASSEMBLED = """
@triton.jit
def assembled(x, out):
    o = tl.arange(0, 64)
    y = tl.inline_asm_elementwise("ex2.approx.f32 $0, $1;", "=f,f", [tl.load(x + o)], tl.float32, True, 1)
    tl.store(out + o, y)


def run(x):
    out = torch.empty_like(x)
    assembled[(1,)](x, out)
    return out
"""

ENDLESS = """
@triton.jit
def endless(x, out):
    turn = 0
    while turn < 1:
        tl.store(out, tl.load(x))


def run(x):
    out = torch.empty_like(x)
    endless[(1,)](x, out)
    return out
"""

SQUARES = "[torch.randn((1024, 1024), dtype=torch.float16, device=device) for _ in range(2)]"
ODD = "[torch.randn((1024, 1032), dtype=torch.float16, device=device)[:, :1024] for _ in range(2)]"
NUMBERS = "[torch.randn(1000003, device=device)]"
TILES = "[torch.randn((64, 64), dtype=torch.float16, device=device)]"
PLACES = "[torch.arange(256, dtype=torch.int32, device=device)]"
COUNTS = "[torch.full((64,), 3, dtype=torch.int32, device=device), torch.randn(4096, device=device)]"
READ = "def run(x):\n    return x * 2 if x[0].item() > 0 else x\n"
MEMORY = "def run(x):\n    return torch.zeros(1 << 33, dtype=torch.int8, device=x.device)\n"

CASES: dict[str, tuple[str, str, float]] = {
    "product": (HEAD + PRODUCT, SQUARES, 60.0),
    "odd": (HEAD + PRODUCT, ODD, 60.0),
    "persistent": (HEAD + PERSISTENT, SQUARES, 60.0),
    **{
        f"{name} behind": (HEAD + BEHIND.replace("EFFECT", effect), TILES, 60.0)
        for name, effect in (
            ("stored", "out.store([rows + tl.program_id(0) * 16, 0], tile)"),
            ("added", "out.atomic_add([rows, 0], tile)"),
            ("loaded", "out.store([tl.program_id(0) * 16, 0], tile + x.load([rows, 0]))"),
        )
    },
    "failing model": (HEAD + SCALED.replace("def run", "def launched") + FAILING_MODEL + SWALLOWED, NUMBERS, 60.0),
    "flattened": (HEAD + FLATTENED, NUMBERS, 60.0),
    "carried": (HEAD + CARRIED.replace("TRIPS", "8"), NUMBERS, 60.0),
    "carried far": (HEAD + CARRIED.replace("TRIPS", "100"), NUMBERS, 60.0),
    "scaled": (HEAD + SCALED, NUMBERS, 60.0),
    "huge": (HEAD + SCALED, "[torch.randn(10_000_000_000, device=device)]", 60.0),
    "ragged": (HEAD + RAGGED.replace("GIVEN", "pass"), COUNTS, 60.0),
    "computed": (
        HEAD
        + RAGGED.replace(
            "GIVEN", "longer = torch.empty_like(counts); counted[(counts.numel(),)](counts, longer); counts = longer"
        ),
        COUNTS,
        60.0,
    ),
    "queue": (HEAD + QUEUE, NUMBERS, 60.0),
    "tuned": (HEAD + TUNED, SQUARES, 60.0),
    "tuned among many": (
        HEAD + TUNED.replace("configs=[", "configs=[triton.Config({'BLOCK': 32})] * 15 + ["),
        SQUARES,
        60.0,
    ),
    "ranked": (HEAD + RANKED.replace("WARPS", "4"), PLACES, 60.0),
    "ranked by one warp": (HEAD + RANKED.replace("WARPS", "1"), PLACES, 60.0),
    **{f"every {number}": (HEAD + SOME.replace("NUMBER", str(number)), NUMBERS, 60.0) for number in (1, 2, 3, 8)},
    "chased": (HEAD + CHASED, PLACES, 60.0),
    "assembled": (HEAD + ASSEMBLED, NUMBERS, 60.0),
    "endless": (HEAD + ENDLESS, NUMBERS, 1.0),
    "read": (HEAD + READ, "[torch.randn(10_000_000_000, device=device)]", 60.0),
    "torch": (HEAD + "def run(x):\n    return x * 2\n", NUMBERS, 60.0),
    "memory": (HEAD + MEMORY, NUMBERS, 60.0),
    "nothing": (HEAD + "def run(x):\n    return torch.empty_like(x)\n", NUMBERS, 60.0),
    "raising": (HEAD + "def run(x):\n    raise ValueError('no such shape')\n", NUMBERS, 60.0),
    "no inputs": (HEAD + READ, "[{}['no such key']]", 60.0),
    "broken": (HEAD + "def walk(x):\n    return x\n", NUMBERS, 60.0),
}
