"""The precision that a task prescribes, read off the compiled kernels: operands of products, where values narrow."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from d2k_agent.contract import CompileReport, KernelReport, Violation
from d2k_agent.evaluator.element_types import UNREAD_PRODUCT

_PRODUCT = re.compile(r"dot:(\w+)\*(\w+)->(\w+)")
_CONVERSION = re.compile(r"cvt:\w+->(\w+)")
_INPUT_PRECISIONS = {"tf32": "tf32", "f32": "ieee"}
"""What `input_precision` has to be for a product of f32 to be carried out in that type."""


def precision_violations(report: CompileReport, rule: Mapping[str, Any]) -> tuple[Violation, ...]:
    """What the kernels of `report` do against a task's `precision` rule; empty where the task has none.

    `operands` and `accumulators` list the element types that products may have, by whatever they are written: tl.dot,
    Gluon or inline PTX. A tl.dot of f32 that tensor cores round needs tf32 beside f32. Where they are listed, a product
    whose types cannot be read is a violation too. `output_only` lists conversions ("f32->bf16") that only the kernel
    writing the returned output may make, so at most one kernel a workload; values that come to the narrower type from
    any other float count as well.
    """
    found = [violation for kernel in report.kernels for violation in _products(kernel, rule)]
    for conversion in rule.get("output_only", ()):
        for workload in report.workloads:
            # Variants of one kernel are one: an output may be written in several launches, a body and its edges.
            using = {
                (item.name, item.source_line): item
                for item in report.kernels
                if workload in item.grids and _converts(item, conversion.partition("->")[2])
            }
            if len(using) > 1:
                message = (
                    f"{len(using)} kernels convert {conversion} at {workload} "
                    f"({', '.join(sorted({name for name, _ in using}))}): only the one that writes the returned output "
                    "may, in inline PTX too; what lies between is kept in the precision that the task names"
                )
                found.append(Violation("compiled.precision", message, next(iter(using.values())).source_line))
                break
    return tuple(dict.fromkeys(found))


def _products(kernel: KernelReport, rule: Mapping[str, Any]) -> Iterator[Violation]:
    if "operands" not in rule:
        return
    may = f"operands may be {', '.join(rule['operands'])}, accumulators {', '.join(rule['accumulators'])}"
    if UNREAD_PRODUCT in kernel.instructions:
        message = (
            f"kernel {kernel.name} multiplies matrices by instructions of which the element types cannot be read: "
            f"write them as tl.dot or by Gluon, not as inline PTX; {may}"
        )
        yield Violation("compiled.precision", message, kernel.source_line)
    for product in filter(None, map(_PRODUCT.fullmatch, kernel.instructions)):
        left, right, result = product.groups()
        if {left, right} <= set(rule["operands"]) and result in rule["accumulators"]:
            continue
        message = f"kernel {kernel.name} multiplies {left} by {right} into {result}: {may}"
        exact = [name for kind, name in _INPUT_PRECISIONS.items() if kind in rule["operands"]]
        if exact and left != "f32" and any(name.startswith("dot:f32*f32->") for name in kernel.instructions):
            message += f"; where that is a tl.dot of f32, set its input_precision to {' or '.join(map(repr, exact))}"
        yield Violation("compiled.precision", message, kernel.source_line)


def _converts(kernel: KernelReport, narrow: str) -> bool:
    conversions = filter(None, map(_CONVERSION.fullmatch, kernel.instructions))
    return any(conversion[1] == narrow for conversion in conversions)
