"""Elements one by one: near the reference, or the same."""

from __future__ import annotations

import torch

from d2k_agent.evaluator.gates.base import Compared, Found, position, same


def close(compared: Compared) -> Found:
    """The largest |output - expected| over atol + rtol * |expected|, at most 1; infinities and NaN must be the same.

    The worst `share` of the elements is left out of it, none where it is not given.
    """
    ratio = _ratio(compared).reshape(-1)
    if not ratio.numel():
        return 0.0, 1.0, True, ""
    beyond = min(int(float(compared.gate.get("share", 0.0)) * ratio.numel()), ratio.numel() - 1)
    value = float(ratio.topk(beyond + 1).values[-1]) if beyond else float(ratio.max())
    if value <= 1.0:
        return value, 1.0, True, ""
    return value, 1.0, False, _told(compared, _ratio(compared) > 1.0)


def exact(compared: Compared) -> Found:
    """The share of elements that are not equal to the reference's; zeros of both signs are equal."""
    wrong = ~same(compared.output, compared.expected)
    count = int(wrong.sum())
    value = count / wrong.numel() if wrong.numel() else 0.0
    passed = value <= compared.limit
    told = (
        "" if passed else f"{count} of {wrong.numel()} elements are not the reference's, the first at {position(wrong)}"
    )
    return value, compared.limit, passed, told


def allclose_share(compared: Compared) -> Found:
    """Share of elements within atol + rtol * |expected|. Decides only where the task gives it a limit."""
    near = _ratio(compared) <= 1.0
    value = float(near.double().mean()) if near.numel() else 1.0
    passed = value >= compared.limit
    return value, compared.gate.get("limit"), passed, "" if passed else _told(compared, ~near)


def _told(compared: Compared, far: torch.Tensor) -> str:
    bound = f"{compared.gate['atol']:g} + {compared.gate['rtol']:g} * |expected|"
    told = f"{int(far.sum())} of {far.numel()} elements are further than {bound} from the reference, the first at"
    return f"{told} {position(far)}"


def _ratio(compared: Compared) -> torch.Tensor:
    """How far each element is off, 1 being as far as it may be: infinite where nothing but the same will do."""
    output, expected = compared.output.double(), compared.expected.double()
    bound = float(compared.gate["atol"]) + float(compared.gate["rtol"]) * expected.abs()
    ratio = (output - expected).abs() / bound
    ratio = torch.where(ratio.isfinite() & expected.isfinite(), ratio, torch.inf)
    return torch.where(same(output, expected), 0.0, ratio)
