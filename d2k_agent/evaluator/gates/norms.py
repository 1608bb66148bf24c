"""Relative norms: of a whole output, and of its slices."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from d2k_agent.evaluator.faults import TaskFault
from d2k_agent.evaluator.gates.base import Compared, Found, position


def rel_norm(compared: Compared) -> Found:
    """||output - expected|| / ||expected||; where the reference is zero, exact zero is asked. It must be finite."""
    limit, wanted = compared.limit, compared.expected.double()
    if not bool(wanted.isfinite().all()):
        return _no_norm(wanted, limit)
    reference = float(torch.linalg.vector_norm(wanted))
    difference = float(torch.linalg.vector_norm(compared.output.double() - wanted))
    if reference == 0.0:
        return None, limit, difference == 0.0, "" if difference == 0.0 else "the reference is zero, the output is not"
    value = difference / reference
    return value, limit, value <= limit, "" if value <= limit else f"relative norm {value:.4g} is above {limit:g}"


def slice_norm(compared: Compared) -> Found:
    """The worst relative norm over slices; a slice whose reference is zero must be zero, none may be infinite.

    `block` is the extent of a slice in each dimension, 0 for the whole of it; without it a slice is a row. `floor`: a
    slice counts as having at least this fraction of the median slice's norm, since legal rounding of small ones is
    large beside them.
    """
    wanted, block = compared.expected.double(), compared.gate.get("block")
    limit, floor = compared.limit, float(compared.gate.get("floor", 0.0))
    if block is not None and len(block) != wanted.dim():
        raise TaskFault(
            f"hidden/workloads.json: the block {block} of the gate on {compared.name} must have one extent for each of "
            f"its {wanted.dim()} dimensions"
        )
    if not bool(wanted.isfinite().all()):
        return _no_norm(wanted, limit)
    reference = _norms(wanted, block)
    difference = _norms(compared.output.double() - wanted, block)
    if not reference.numel():
        return 0.0, limit, True, ""
    least = reference.clamp(min=floor * float(reference.median()))
    zero = least == 0
    if bool((difference[zero] != 0).any()):
        where = position(zero & (difference != 0))
        return None, limit, False, f"row {where} must be zero, as its reference is"
    ratio = torch.where(zero, torch.zeros_like(difference), difference / torch.where(zero, 1.0, least))
    value = float(ratio.max())
    message = "" if value <= limit else f"row {position(ratio == ratio.max())} is off by {value:.3g} of its norm"
    return value, limit, math.isfinite(value) and value <= limit, message


def _no_norm(wanted: torch.Tensor, limit: float) -> Found:
    told = f"the reference is not finite, first at {position(~wanted.isfinite())}, and has no norm"
    return None, limit, False, f"{told}: judge it by close or exact, or leave such rows out with rows"


def _norms(tensor: torch.Tensor, block: Sequence[int] | None) -> torch.Tensor:
    """The norm of every slice; slices at the end of a dimension may be shorter."""
    if block is None:
        return torch.linalg.vector_norm(tensor, dim=-1)
    extents = [extent or max(1, size) for extent, size in zip(block, tensor.shape, strict=True)]
    short = [-size % extent for extent, size in zip(extents, tensor.shape, strict=True)]
    padded = torch.nn.functional.pad(tensor, [end for size in reversed(short) for end in (0, size)])
    shape = [part for extent, size in zip(extents, padded.shape, strict=True) for part in (size // extent, extent)]
    return torch.linalg.vector_norm(padded.reshape(shape), dim=tuple(range(1, len(shape), 2)))
