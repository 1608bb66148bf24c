"""The precision that a task prescribes, read off the compiled kernels: operands of products, where values narrow."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from d2k_agent.contract import CompileReport, Violation

_PRODUCT = re.compile(r"dot:(\w+)\*(\w+)->(\w+)")


def precision_violations(report: CompileReport, rule: Mapping[str, Any]) -> tuple[Violation, ...]:
    """What the kernels of `report` do against a task's `precision` rule; empty where the task has none.

    `operands` and `accumulators` list the element types that products may have; `output_only` lists conversions
    ("f32->bf16") that only the kernel writing the returned output may make, so at most one kernel a workload.
    """
    found = []
    for kernel in report.kernels:
        for name in kernel.instructions:
            product = _PRODUCT.fullmatch(name)
            if product and not _allowed(product, rule):
                message = (
                    f"kernel {kernel.name} multiplies {product[1]} by {product[2]} into {product[3]}: operands may be "
                    f"{', '.join(rule['operands'])}, accumulators {', '.join(rule['accumulators'])}"
                )
                found.append(Violation("compiled.precision", message, kernel.source_line))
    for conversion in rule.get("output_only", ()):
        for workload in report.workloads:
            # Variants of one kernel are one: an output may be written in several launches, a body and its edges.
            using = {
                (item.name, item.source_line): item
                for item in report.kernels
                if workload in item.grids and f"cvt:{conversion}" in item.instructions
            }
            if len(using) > 1:
                message = (
                    f"{len(using)} kernels convert {conversion} at {workload}: only the one that writes the returned "
                    "output may; what lies between is kept in the precision that the task names"
                )
                found.append(Violation("compiled.precision", message, next(iter(using.values())).source_line))
                break
    return tuple(dict.fromkeys(found))


def _allowed(product: re.Match[str], rule: Mapping[str, Any]) -> bool:
    if "operands" not in rule:
        return True
    return product[1] in rule["operands"] and product[2] in rule["operands"] and product[3] in rule["accumulators"]
