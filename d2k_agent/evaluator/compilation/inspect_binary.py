"""Reads what a compiled kernel is made of: ptxas's log for resources, the PTX for instructions, the IR for the rest."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass

TENSOR_CORE = ("tcgen05.mma", "wgmma", "mma.sync")
FMA = "FMA"
"""In an instruction's place: a matrix product that no tensor core carries out."""

_PTX_PATTERNS = {
    "mma.sync": r"\bmma\.sync",
    "wgmma": r"\bwgmma\.mma_async",
    "tcgen05.mma": r"\btcgen05\.mma",
    "tcgen05.ld": r"\btcgen05\.ld",
    "tcgen05.st": r"\btcgen05\.st",
    "tcgen05.cp": r"\btcgen05\.cp",
    "tma_load": r"\bcp\.async\.bulk\.tensor[^;]*\.shared::(?:cluster|cta)\.global",
    "tma_store": r"\bcp\.(?:async|reduce\.async)\.bulk\.tensor[^;]*\.global\.shared",
    "cp.async": r"\bcp\.async\.c[ag]\b",
    "setmaxnreg": r"\bsetmaxnreg",
    "atomic": r"\b(?:atom|red)\.",
    "release.sys": r"\b(?:atom|red|st|fence)\.(?=\S*\bsys\b)\S*\b(?:release|acq_rel|sc)\b|\bmembar\.sys\b",
    "acquire.sys": r"\b(?:atom|red|ld|fence)\.(?=\S*\bsys\b)\S*\b(?:acquire|acq_rel|sc)\b|\bmembar\.sys\b",
    "bar.sync": r"\bbar(?:rier)?\.sync",
}
_ANY_DOT = re.compile(r"\btt\.dot(?:_scaled)?\b|\bttng\.warp_group_dot\b|\bttng\.tc_gen5_mma")
_LAYOUT = re.compile(r"^(#\w+) = #ttg\.(nvidia_mma|blocked)\b", re.MULTILINE)
_BY = {"nvidia_mma": "mma.sync", "blocked": FMA}
_SHAPED = r"tensor<((?:\d+x)+)(\w+), [^\n]*?>"
_LEFT_DOT = re.compile(rf"tt\.dot\b([^\n]*?) : {_SHAPED} \* {_SHAPED} -> tensor<[^\n]*?(#\w+)>")
_LOOP = re.compile(r"\bscf\.(?:for|while)\b")
_GLOBAL = re.compile(r"\b(ld|st)\.(?:[\w:]+\.)*?global((?:\.[\w:]+)+)")
_ASYNC_COPY = re.compile(r"\bcp\.async\.c[ag]\.shared\S*\s*\[[^\]]*\],\s*\[[^\]]*\],\s*(0x[0-9a-fA-F]+|\d+)")
_ACCESS = re.compile(
    r"\b(tt\.load|tt\.store|ttg\.async_copy_global_to_local)\b[^\n]*? : tensor<((?:\d+x)+)!tt\.ptr<(\w+)>"
)


@dataclass(frozen=True)
class Resources:
    """What ptxas says a thread of the kernel uses. None where its log does not say."""

    registers: int | None = None
    stack_bytes: int | None = None
    spill_store_bytes: int | None = None
    spill_load_bytes: int | None = None
    barriers: int | None = None
    remarks: tuple[str, ...] = ()
    """What ptxas calls a potential performance loss, such as serialised wgmma."""


def read_log(log: str) -> Resources:
    """Resources from the log of `ptxas -v`. Functions that are not inlined count with their kernel."""
    frames = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", log)
    registers = re.findall(r"Used (\d+) registers", log)
    barriers = re.findall(r"used (\d+) barriers", log)
    remarks = re.findall(r"Potential Performance Loss: (.*)$", log, re.MULTILINE)
    return Resources(
        registers=max(map(int, registers)) if registers else None,
        stack_bytes=max(int(frame[0]) for frame in frames) if frames else None,
        spill_store_bytes=sum(int(frame[1]) for frame in frames) if frames else None,
        spill_load_bytes=sum(int(frame[2]) for frame in frames) if frames else None,
        barriers=max(map(int, barriers)) if barriers else None,
        remarks=tuple(dict.fromkeys(remark.strip() for remark in remarks)),
    )


def count_instructions(ptx: str) -> dict[str, int]:
    """PTX instructions by kind; kinds that do not occur are left out."""
    counts = {kind: len(re.findall(pattern, ptx)) for kind, pattern in _PTX_PATTERNS.items()}
    return {kind: count for kind, count in counts.items() if count}


def has_product(ir: str) -> bool:
    """True when the kernel multiplies matrices, by whatever instruction."""
    return _ANY_DOT.search(ir) is not None


@dataclass(frozen=True)
class Product:
    """A matrix product that is not carried out by the newest tensor cores: `by` mma.sync or FMA.

    A tile has `rows` x `columns`, and the sum runs over `depth`. `tf32` says that f32 operands may be rounded to it.
    """

    by: str
    rows: int
    columns: int
    depth: int
    operand: str
    tf32: bool


def left_products(ir: str) -> tuple[Product, ...]:
    """The products of a kernel's TTGIR that stayed tt.dot: wgmma and tcgen05.mma have operations of their own there."""
    by = {alias: _BY[layout] for alias, layout in _LAYOUT.findall(ir)}
    found = []
    for options, left, operand, right, _, alias in _LEFT_DOT.findall(ir):
        if alias in by:
            rows, depth = _sides(left)[-2:]
            found.append(
                Product(by[alias], rows, _sides(right)[-1], depth, operand, "inputPrecision = tf32" in options)
            )
    return tuple(dict.fromkeys(found))


def has_loop(ir: str) -> bool:
    """True when the kernel repeats anything, so that loads of one round could overlap with the work of another."""
    return _LOOP.search(ir) is not None


@dataclass(frozen=True)
class Access:
    """Loads from, or stores to, global memory by threads; TMA is not among them.

    `by_bytes` counts PTX instructions by the bytes that one moves for a thread. `tiles` has the elements and the bytes
    of an element of each tile that is accessed at once, by all threads of a block together; single values are none.
    """

    by_bytes: dict[int, int]
    tiles: tuple[tuple[int, int], ...]


def read_accesses(ptx: str, ir: str) -> tuple[Access, Access]:
    """Loads and stores of a kernel, from its PTX and its TTGIR."""
    counts: tuple[Counter[int], Counter[int]] = Counter(), Counter()
    for kind, modifiers in _GLOBAL.findall(ptx):
        counts[kind == "st"][_bytes_moved(modifiers)] += 1
    counts[0].update(int(size, 0) for size in _ASYNC_COPY.findall(ptx))
    tiles: tuple[list[tuple[int, int]], list[tuple[int, int]]] = [], []
    for operation, shape, element in _ACCESS.findall(ir):
        tiles[operation == "tt.store"].append((math.prod(_sides(shape)), _element_bytes(element)))
    loads, stores = (
        Access(dict(sorted(count.items())), tuple(tile)) for count, tile in zip(counts, tiles, strict=True)
    )
    return loads, stores


def _sides(shape: str) -> list[int]:
    return [int(side) for side in shape.rstrip("x").split("x")]


def _bytes_moved(modifiers: str) -> int:
    """Of a PTX access such as .L1::evict_last.v4.b32: sixteen."""
    lanes = re.search(r"\.v(\d+)\b", modifiers)
    bits = re.search(r"\.[busf](\d+)\b", modifiers)
    return (int(lanes[1]) if lanes else 1) * (int(bits[1]) if bits else 0) // 8


def _element_bytes(element: str) -> int:
    """Of an element type of the IR: f8E4M3FN has one byte, bf16 two, i1 one."""
    bits = re.search(r"\d+", element)
    return max(8, int(bits[0])) // 8 if bits else 0
