"""Element types that a compiled kernel multiplies and narrows, from its PTX and its IR.

The PTX has the last word: what the compiler makes of an f32 product, what Gluon asks for and what an author writes as
inline PTX are all in it. The IR adds products that no tensor core carries out, and the types of tcgen05.mma, which has
them in a descriptor. Narrowing by integer operations on bits is not seen: packing looks the same.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

UNREAD_PRODUCT = "dot:?"
"""In a product's place: an instruction that multiplies matrices of nobody knows what."""

_ELEMENT = r"tensor<(?:\d+x)+(\w+)[^\n]*?>"
_DOT = re.compile(rf"tt\.dot(?:_scaled)?\b[^\n]*? : {_ELEMENT}[^\n]*? \* {_ELEMENT}[^\n]*? -> {_ELEMENT}")
_NARROWED = re.compile(rf"arith\.truncf [^\n]*? : {_ELEMENT} to {_ELEMENT}")
_MEMORY = r"!ttg\.memdesc<(?:\d+x)+(\w+),[^\n]*?>"
_TCGEN05 = re.compile(rf"\bttng\.tc_gen5_mma(?:_scaled)?\b[^\n]*? : {_MEMORY}, {_MEMORY}, {_MEMORY}")
_TCGEN05_BY_HAND = re.compile(r'\btt\.elementwise_inline_asm "[^"]*\btcgen05\b')

_NO_CODE = re.compile(r'"[^"]*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
"""As ptxas reads it: strings have no escapes and may span lines."""
_INSTRUCTION = re.compile(r"(?<![\w.$%])(mma|wmma|wgmma|tcgen05|cvt)((?:\s*\.[\w:]+)+)")
"""ptxas bears white space before a modifier, and most modifiers in any order; types keep theirs."""
_MULTIPLIES = {"mma": "sync", "wmma": "mma", "wgmma": "mma_async", "tcgen05": "mma"}
"""The modifier that makes an instruction of this name a product."""
_NAMED_BY_IR = {f"{sign}{bits}": f"i{bits}" for sign in "su" for bits in (4, 8, 32)} | {
    "b1": "i1",
    "e4m3": "f8E4M3FN",
    "e5m2": "f8E5M2",
    "e2m3": "f6E2M3FN",
    "e3m2": "f6E3M2FN",
    "e2m1": "f4E2M1FN",
}
_FLOAT_BITS = {"f64": 64, "f32": 32, "tf32": 19, "f16": 16, "bf16": 16} | {
    name: int(name[1]) for name in _NAMED_BY_IR.values() if name.startswith("f")
}


def count_types(ptx: str, ttir: str, ttgir: str) -> dict[str, int]:
    """Matrix products by types (dot:f16*f16->f32), and conversions to a float that holds less (cvt:f32->bf16).

    Types have the IR's names; tf32 is f32 as tensor cores round it. What the TTIR names is counted in operations there,
    other products and conversions in instructions of the PTX, and those of tcgen05.mma in operations of the TTGIR.
    Gluon has no TTIR: it is empty then. UNREAD_PRODUCT stands for those whose types neither of them tells.
    """
    in_ir = Counter(f"dot:{left}*{right}->{result}" for left, right, result in _DOT.findall(ttir))
    in_ir.update(f"cvt:{wide}->{narrow}" for wide, narrow in _NARROWED.findall(ttir))
    return dict(sorted({**Counter(_of_ptx(ptx, ttgir)), **in_ir}.items()))


def _of_ptx(ptx: str, ttgir: str) -> Iterator[str]:
    by_descriptor = False
    for operation, tail in _INSTRUCTION.findall(_NO_CODE.sub(" ", ptx)):
        modifiers = [modifier.strip() for modifier in tail.split(".")[1:]]
        if operation == "cvt":
            yield from _narrowed(_types(modifiers))
        elif _MULTIPLIES[operation] in modifiers and operation == "tcgen05":
            by_descriptor = True
        elif _MULTIPLIES[operation] in modifiers:
            yield from _multiplied(operation, _types(modifiers))
    if by_descriptor:
        yield from _multiplied_by_descriptor(ttgir)


def _types(modifiers: Iterable[str]) -> list[str]:
    """Element types among modifiers, in their order: f16 of f16x2."""
    bare = [re.sub(r"x[24]$", "", modifier) for modifier in modifiers]
    named = [_NAMED_BY_IR.get(name, name) for name in bare]
    return [name for name in named if name in _FLOAT_BITS or name in _NAMED_BY_IR.values()]


def _narrowed(types: list[str]) -> Iterator[str]:
    bits = [_FLOAT_BITS.get(name) for name in types]
    match types, bits:
        case [narrow, wide], [int() as left, int() as right] if narrow != wide and left <= right:
            yield f"cvt:{wide}->{narrow}"


def _multiplied(operation: str, types: list[str]) -> set[str]:
    """Of the types of an instruction: result and operands, and what is added but for wgmma; wmma leaves out f16."""
    match operation, types:
        case (("mma" | "wmma"), [result, left, right, added]):
            return {f"dot:{left}*{right}->{sums}" for sums in (result, added)}
        case "wmma", [result, added]:
            return {f"dot:f16*f16->{sums}" for sums in (result, added)}
        case "wgmma", [result, left, right]:
            return {f"dot:{left}*{right}->{result}"}
    return {UNREAD_PRODUCT}


def _multiplied_by_descriptor(ttgir: str) -> list[str]:
    """The products that tcgen05.mma carries out: all of the TTGIR's, unless the author has written some as PTX."""
    found = [] if _TCGEN05_BY_HAND.search(ttgir) else _TCGEN05.findall(ttgir)
    rounded = [["tf32" if name == "f32" else name for name in types[:2]] + [types[2]] for types in found]
    return [f"dot:{left}*{right}->{result}" for left, right, result in rounded] or [UNREAD_PRODUCT]
