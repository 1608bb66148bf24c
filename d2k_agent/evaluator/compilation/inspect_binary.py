"""Reads what a compiled kernel is made of: ptxas's log for resources, the PTX for instructions, the IR for products."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

TENSOR_CORE = ("mma.sync", "wgmma", "tcgen05.mma")

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
    "bar.sync": r"\bbar(?:rier)?\.sync",
}
_ELEMENT = r"tensor<(?:\d+x)+(\w+)[^\n]*?>"
_DOT = re.compile(rf"tt\.dot(?:_scaled)?\b[^\n]*? : {_ELEMENT}[^\n]*? \* {_ELEMENT}[^\n]*? -> {_ELEMENT}")
_ANY_DOT = re.compile(r"\btt\.dot(?:_scaled)?\b|\bttng\.warp_group_dot\b|\bttng\.tc_gen5_mma")
_NARROWED = re.compile(rf"arith\.truncf [^\n]*? : {_ELEMENT} to {_ELEMENT}")


@dataclass(frozen=True)
class Resources:
    """What ptxas says a thread of the kernel uses. None where its log does not say."""

    registers: int | None = None
    stack_bytes: int | None = None
    spill_store_bytes: int | None = None
    spill_load_bytes: int | None = None
    remarks: tuple[str, ...] = ()
    """What ptxas calls a potential performance loss, such as serialised wgmma."""


def read_log(log: str) -> Resources:
    """Resources from the log of `ptxas -v`. Functions that are not inlined count with their kernel."""
    frames = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", log)
    registers = re.findall(r"Used (\d+) registers", log)
    remarks = re.findall(r"Potential Performance Loss: (.*)$", log, re.MULTILINE)
    return Resources(
        registers=max(map(int, registers)) if registers else None,
        stack_bytes=max(int(frame[0]) for frame in frames) if frames else None,
        spill_store_bytes=sum(int(frame[1]) for frame in frames) if frames else None,
        spill_load_bytes=sum(int(frame[2]) for frame in frames) if frames else None,
        remarks=tuple(dict.fromkeys(remark.strip() for remark in remarks)),
    )


def count_instructions(ptx: str) -> dict[str, int]:
    """PTX instructions by kind; kinds that do not occur are left out."""
    counts = {kind: len(re.findall(pattern, ptx)) for kind, pattern in _PTX_PATTERNS.items()}
    return {kind: count for kind, count in counts.items() if count}


def count_products(ir: str) -> dict[str, int]:
    """Matrix products by operand types (dot:f16*f16->f32) and narrowing casts (cvt:f32->bf16) of a kernel's TTIR."""
    products = Counter(f"dot:{left}*{right}->{result}" for left, right, result in _DOT.findall(ir))
    casts = Counter(f"cvt:{wide}->{narrow}" for wide, narrow in _NARROWED.findall(ir))
    return dict(sorted((products + casts).items()))


def has_product(ir: str) -> bool:
    """True when the kernel multiplies matrices, by whatever instruction."""
    return _ANY_DOT.search(ir) is not None
