"""All gates of a task on one answer, in the task's order. A failed one ends the list: later ones may rest on it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from d2k_agent.contract import Check
from d2k_agent.evaluator.faults import TaskFault
from d2k_agent.evaluator.gates.base import Answer, Ask, Compared, comparable
from d2k_agent.evaluator.gates.kinds import GATES


def compare(
    answer: Answer, gates: Sequence[Mapping[str, Any]], ask: Ask, reported: Sequence[Mapping[str, Any]] = ()
) -> list[Check]:
    """The checks of `gates`, then of `reported`, which decide nothing. A gate whose rows are none leaves no check.

    Raises TaskFault where a function of check.py returns what cannot be used.
    """
    checks: list[Check] = []
    for gate in gates:
        checks += _checked(answer, gate, ask)
        if not all(check.passed for check in checks):
            return checks
    for gate in reported:
        checks += [
            dataclasses.replace(check, limit=None, passed=True, message="") for check in _checked(answer, gate, ask)
        ]
    return checks


def label_of(gate: Mapping[str, Any]) -> str:
    """The name that checks of a gate have: its kind, and the rows that it is for."""
    return f"{gate['gate']}.{gate['rows']}" if "rows" in gate else str(gate["gate"])


def _checked(answer: Answer, gate: Mapping[str, Any], ask: Ask) -> Iterator[Check]:
    compared = _compared(answer, gate, ask)
    if compared.rows is not None and not bool(compared.rows.any()):
        return
    name = compared.name
    lost = _lost(compared.output, compared.expected)
    if lost:
        told = f"{lost} of {compared.output.numel()} elements are NaN or infinite: memory never written, or an overflow"
        yield Check(name, "finite", float(lost), 0.0, False, told)
        return
    value, limit, passed, message = GATES[gate["gate"]].decide(compared)
    known = value if value is None or math.isfinite(value) else None  # a reference may be infinite somewhere
    yield Check(name, label_of(gate), known, limit, passed, message)


def _compared(answer: Answer, gate: Mapping[str, Any], ask: Ask) -> Compared:
    name = gate.get("output") or next(iter(answer.values))
    output, expected = answer.values[name], answer.expected[name]
    if "expect" in gate:
        expected = ask(gate["expect"], list(answer.arguments), dict(answer.values))
        if not isinstance(expected, torch.Tensor) or expected.shape != output.shape:
            raise TaskFault(f"hidden/check.py: {gate['expect']} must return a tensor with the shape of {name}")
    if gate.get("change"):
        before = answer.before[name].double()
        output, expected = output.double() - before, expected.double() - before
    rows = None
    if "rows" in gate:
        rows = ask(gate["rows"], list(answer.arguments), dict(answer.expected))
        if not isinstance(rows, torch.Tensor) or rows.dtype != torch.bool or rows.shape != output.shape[: rows.dim()]:
            raise TaskFault(
                f"hidden/check.py: {gate['rows']} must return a bool tensor over the first dimensions of {name}"
            )
        output, expected = output[rows], expected[rows]
    return Compared(name, gate, output, expected, answer, ask, rows)


def _lost(output: torch.Tensor, expected: torch.Tensor) -> int:
    """Elements that are NaN or infinite where the reference is not."""
    if not output.is_floating_point():
        return 0
    return int((~torch.isfinite(comparable(output)) & torch.isfinite(comparable(expected))).sum())
