"""Gate kinds as named units: one output against one reference, a value against a limit.

Every gate is computed in fp64 on the supervisor's own copies. NaN and infinity are looked for first, so that no
comparison with NaN decides anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from d2k_agent.contract import Check

Gate = Callable[[torch.Tensor, torch.Tensor, dict[str, Any]], tuple[float | None, float | None, bool, str]]


def compare(name: str, output: torch.Tensor, expected: torch.Tensor, gates: list[dict[str, Any]]) -> list[Check]:
    """All checks of one output: shape, dtype, finite, then the task's gates in order. A failed one ends the list."""
    if output.shape != expected.shape or output.dtype != expected.dtype:
        told, wanted = f"{output.dtype}{list(output.shape)}", f"{expected.dtype}{list(expected.shape)}"
        message = f"the output is {told}, expected is {wanted}".replace("torch.", "")
        return [Check(name, "shape", None, None, False, message)]
    unexpected = int((~torch.isfinite(output) & torch.isfinite(expected)).sum()) if output.is_floating_point() else 0
    if unexpected:
        message = f"{unexpected} of {output.numel()} elements are NaN or infinite: memory never written, or an overflow"
        return [Check(name, "finite", float(unexpected), 0.0, False, message)]
    checks = []
    for gate in gates:
        value, limit, passed, message = GATES[gate["gate"]](output, expected, gate)
        known = value if value is None or math.isfinite(value) else None  # a reference may be infinite somewhere
        checks.append(Check(name, gate["gate"], known, limit, passed, message))
        if not passed:
            break
    return checks


def rel_norm(
    output: torch.Tensor, expected: torch.Tensor, gate: dict[str, Any]
) -> tuple[float | None, float | None, bool, str]:
    """||output - expected|| / ||expected|| over the whole tensor; where the reference is zero, exact zero is asked."""
    wanted = expected.double()
    reference = float(torch.linalg.vector_norm(wanted))
    difference = float(torch.linalg.vector_norm(output.double() - wanted))
    limit = float(gate["limit"])
    if reference == 0.0:
        return None, limit, difference == 0.0, "" if difference == 0.0 else "the reference is zero, the output is not"
    value = difference / reference
    return value, limit, value <= limit, "" if value <= limit else f"relative norm {value:.4g} is above {limit:g}"


def row_norm(
    output: torch.Tensor, expected: torch.Tensor, gate: dict[str, Any]
) -> tuple[float | None, float | None, bool, str]:
    """The worst relative norm over rows (last dimension); a row whose reference is zero must be zero."""
    wanted = expected.double()
    reference = torch.linalg.vector_norm(wanted, dim=-1)
    difference = torch.linalg.vector_norm(output.double() - wanted, dim=-1)
    limit = float(gate["limit"])
    zero = reference == 0
    if bool((difference[zero] != 0).any()):
        where = _position(zero & (difference != 0))
        return None, limit, False, f"row {where} must be zero, as its reference is"
    ratio = torch.where(zero, torch.zeros_like(difference), difference / torch.where(zero, 1.0, reference))
    value = float(ratio.max()) if ratio.numel() else 0.0
    message = "" if value <= limit else f"row {_position(ratio == ratio.max())} is off by {value:.3g} of its norm"
    return value, limit, math.isfinite(value) and value <= limit, message


def allclose_share(
    output: torch.Tensor, expected: torch.Tensor, gate: dict[str, Any]
) -> tuple[float | None, float | None, bool, str]:
    """Share of elements within atol + rtol * |expected|. Decides only where the task gives it a limit."""
    bound = float(gate["atol"]) + float(gate["rtol"]) * expected.double().abs()
    near = (output.double() - expected.double()).abs() <= bound
    value = float(near.double().mean()) if near.numel() else 1.0
    limit = gate.get("limit")
    return value, limit, limit is None or value >= float(limit), ""


GATES: dict[str, Gate] = {"rel_norm": rel_norm, "row_norm": row_norm, "allclose_share": allclose_share}


def _position(where: torch.Tensor) -> list[int]:
    return [int(index) for index in torch.nonzero(where)[0]]
