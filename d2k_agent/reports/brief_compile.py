"""What the compiler said, worded for a model: what all variants of a kernel share is said once, the rest is columns.

It tells what compile_text does, in fewer tokens. What is 0 or does not apply is left out; a reader is told so once, in
the beginning of the conversation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from d2k_agent.contract import CompileReport, KernelReport
from d2k_agent.models.tokens import count_tokens
from d2k_agent.reports.compile_text import MOST_WARNINGS, UNTOLD, failure_words, importance, not_launched, spilled
from d2k_agent.reports.tables import UNKNOWN

MOST_TOKENS = 1_500
MOST_VALUE_CHARS = 40
_NUMBERED = re.compile(r"^ *\d+ \| ")


def brief_compile(report: CompileReport, most_tokens: int = MOST_TOKENS) -> str:
    """Outcome and warnings, a blank line, then the launched kernels, matrix products first; at most `most_tokens`.

    Holds no times and no paths. Variants that do not fit are left out, and how many is said.
    """
    head = [_outcome(report), *(f"warning: {text}" for text in report.warnings[:MOST_WARNINGS])]
    if len(report.warnings) > MOST_WARNINGS:
        head.append(f"{len(report.warnings) - MOST_WARNINGS} more warnings left out")
    launched = sorted((kernel for kernel in report.kernels if kernel.launches), key=importance)
    tail = not_launched([kernel for kernel in report.kernels if not kernel.launches])
    if report.not_compiled:
        tail.append(f"{report.not_compiled} autotuner configuration(s) not compiled")
    for shown in range(len(launched), -1, -1):
        left = [f"{len(launched) - shown} more variants left out"] if shown < len(launched) else []
        kernels = [*_kernels(launched[:shown]), *left, *tail]
        text = "\n".join([*head, *([""] if kernels else []), *kernels])
        if count_tokens(text) <= most_tokens:
            return text
    return within("\n".join(head), most_tokens)


def within(text: str, most_tokens: int) -> str:
    """The beginning of `text` that has at most `most_tokens` tokens, the note that it was cut included."""
    if count_tokens(text) <= most_tokens:
        return text
    note = " (cut)"
    kept, dropped = 0, len(text)
    while dropped - kept > 1:  # the longest beginning that fits lies between the two
        middle = (kept + dropped) // 2
        fits = count_tokens(text[:middle] + note) <= most_tokens
        kept, dropped = (middle, dropped) if fits else (kept, middle)
    return text[:kept] + note


def _outcome(report: CompileReport) -> str:
    where = f"{report.target} ({report.architecture}, Triton {report.triton_version})"
    if report.error is None:
        launched = sum(1 for kernel in report.kernels if kernel.launches)
        return f"compiles for {where}, kernel variants: {launched}"
    return f"{failure_words(report)} for {where}: {_at_the_place(report.error)}"


def _at_the_place(error: str) -> str:
    """The error with the line that it points at, without the lines above: the model wrote them."""
    lines = error.splitlines()
    kept = [
        line
        for line, below in zip(lines, [*lines[1:], ""], strict=True)
        if not _NUMBERED.match(line) or below.strip() == "^"
    ]
    return "\n".join(kept)


def _kernels(kernels: Sequence[KernelReport]) -> list[str]:
    lines: list[str] = []
    for name in dict.fromkeys((kernel.name, kernel.source_line) for kernel in kernels):
        variants = [_fields(kernel) for kernel in kernels if (kernel.name, kernel.source_line) == name]
        lines += _group(name[0] if name[1] is None else f"{name[0]}:{name[1]}", variants)
    return lines


def _group(name: str, variants: list[dict[str, str]]) -> list[str]:
    """A line of what the variants share; where they differ in several fields, also their names and a row a variant."""
    names = list(dict.fromkeys(field for variant in variants for field in variant))
    values = {field: [variant.get(field, "-") for variant in variants] for field in names}
    shared = [f"{field}={column[0]}" for field, column in values.items() if len(set(column)) == 1]
    differing = [field for field, column in values.items() if len(set(column)) > 1]
    head = f"{name} {' '.join(shared)}"
    if not differing:
        return [head if len(variants) == 1 else f"{head} ({len(variants)} variants)"]
    if len(differing) == 1:
        return [f"{head} {differing[0]}={'|'.join(values[differing[0]])}"]
    rows = zip(*(values[field] for field in differing), strict=True)
    return [f"{head}:", f"  {' '.join(differing)}", *(f"  {' '.join(row)}" for row in rows)]


def _fields(kernel: KernelReport) -> dict[str, str]:
    """What is known of a variant and not 0, by name."""
    spill = spilled(kernel)
    fields = {
        "launches": str(kernel.launches),
        "warps": str(kernel.num_warps),
        "stages": str(kernel.num_stages),
        "regs": UNKNOWN if kernel.registers is None else str(kernel.registers),
        "shared": str(kernel.shared_bytes) if kernel.shared_bytes else "",
        "spill": UNKNOWN if spill is None else str(spill) if spill else "",
        "tmem": str(kernel.tensor_memory_columns) if kernel.tensor_memory_columns else "",
        **{kind: str(count) for kind, count in sorted(kernel.instructions.items()) if count and kind not in UNTOLD},
    }
    for name, value in kernel.constexprs.items():
        own = f"constexpr:{name}" if name in fields else name
        fields[own] = "".join(value.split())[:MOST_VALUE_CHARS]  # a blank separates columns
    return {name: value for name, value in fields.items() if value}
