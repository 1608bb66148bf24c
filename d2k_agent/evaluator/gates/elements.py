"""Elements one by one: near the reference, or the same."""

from __future__ import annotations

import torch

from d2k_agent.evaluator.gates.base import Compared, Found, position


def close(compared: Compared) -> Found:
    """The share of elements that are not within atol + rtol * |expected|; infinities and NaN must be the same."""
    bound = f"{compared.gate['atol']:g} + {compared.gate['rtol']:g} * |expected|"
    return _share(compared, ~_near(compared), f"further than {bound} from the reference")


def exact(compared: Compared) -> Found:
    """The share of elements that are not equal to the reference's; zeros of both signs are equal."""
    output, expected = (_comparable(tensor) for tensor in (compared.output, compared.expected))
    return _share(compared, ~_same(output, expected), "not the reference's")


def allclose_share(compared: Compared) -> Found:
    """The share of elements within atol + rtol * |expected|, at least `limit`."""
    near = _near(compared)
    value = float(near.double().mean()) if near.numel() else 1.0
    return value, compared.gate.get("limit"), value >= compared.limit, ""


def _near(compared: Compared) -> torch.Tensor:
    output, expected = compared.output.double(), compared.expected.double()
    bound = float(compared.gate["atol"]) + float(compared.gate["rtol"]) * expected.abs()
    return _same(output, expected) | (((output - expected).abs() <= bound) & expected.isfinite())


def _same(output: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    return (output == expected) | ((output != output) & (expected != expected))


def _comparable(tensor: torch.Tensor) -> torch.Tensor:
    """PyTorch compares no floats of one byte."""
    return tensor.float() if tensor.is_floating_point() and tensor.itemsize == 1 else tensor


def _share(compared: Compared, wrong: torch.Tensor, what: str) -> Found:
    count = int(wrong.sum())
    value = count / wrong.numel() if wrong.numel() else 0.0
    passed = value <= compared.limit
    message = "" if passed else f"{count} of {wrong.numel()} elements are {what}, the first at {position(wrong)}"
    return value, compared.limit, passed, message
