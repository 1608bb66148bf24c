"""Gates: what passes, what fails, and which comparison with nothing decides nothing."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

torch = pytest.importorskip("torch")


def compare(output: Any, expected: Any, *gates: dict[str, Any]) -> list[Any]:
    gates_module = importlib.import_module("d2k_agent.evaluator.gates")
    checks: list[Any] = gates_module.compare("y", output, expected, list(gates))
    return checks


NORM = {"gate": "rel_norm", "limit": 0.01}
ROWS = {"gate": "row_norm", "limit": 0.1}


def test_relative_norm_is_the_error_over_the_reference() -> None:
    expected = torch.tensor([3.0, 4.0])
    (check,) = compare(expected + torch.tensor([0.0, 0.02]), expected, NORM)
    assert check.passed
    assert check.value == pytest.approx(0.02 / 5, rel=1e-5)
    (check,) = compare(expected * 1.02, expected, NORM)
    assert (check.passed, check.limit) == (False, 0.01)


def test_nan_never_passes_and_is_counted() -> None:
    expected = torch.ones(10)
    (check,) = compare(torch.where(torch.arange(10) < 3, torch.nan, expected), expected, NORM)
    assert (check.gate, check.value, check.passed) == ("finite", 3.0, False)


def test_a_zero_reference_asks_for_exact_zero() -> None:
    expected = torch.zeros(4, 4)
    assert all(check.passed for check in compare(torch.zeros(4, 4), expected, NORM, ROWS))
    (check,) = compare(torch.full((4, 4), 1e-20), expected, NORM)
    assert not check.passed


def test_one_dropped_row_is_found_where_the_norm_hides_it() -> None:
    expected = torch.ones(20000, 4)
    output = expected.clone()
    output[7] = 0
    norm, rows = compare(output, expected, NORM, ROWS)
    assert norm.passed
    assert (rows.passed, rows.value) == (False, 1.0)
    assert "7" in rows.message


def test_a_row_that_must_be_zero_is_named() -> None:
    expected = torch.ones(1000, 8)
    expected[5] = 0
    output = expected.clone()
    output[5, 0] = 1e-6
    norm, rows = compare(output, expected, NORM, ROWS)
    assert norm.passed
    assert not rows.passed
    assert "[5]" in rows.message


def test_shape_and_dtype_come_first() -> None:
    (check,) = compare(torch.ones(3), torch.ones(4), NORM)
    assert (check.gate, check.passed) == ("shape", False)
    (check,) = compare(torch.ones(4).half(), torch.ones(4), NORM)
    assert "float16[4]" in check.message


def test_the_share_of_close_elements_reports_without_deciding() -> None:
    gate = {"gate": "allclose_share", "atol": 0.1, "rtol": 0.0}
    (check,) = compare(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 3.0]), gate)
    assert (check.value, check.passed) == (0.5, True)
    (check,) = compare(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 3.0]), gate | {"limit": 0.9})
    assert not check.passed


def test_the_layout_round_trips_every_dtype() -> None:
    layout = importlib.import_module("d2k_agent.evaluator.layout")
    tensors = [torch.ones(3, 5).to(dtype) for dtype in layout.DTYPES]
    headers = tuple(layout.header_of(tensor) for tensor in tensors)
    answer = layout.AnswerHeader(headers, 17, 5, 23)
    assert layout.unpack_answer(layout.pack_answer(answer)) == answer
    places, size = layout.offsets(list(headers))
    block = torch.zeros(size, dtype=torch.uint8)
    for tensor, header, place in zip(tensors, headers, places, strict=True):
        layout.view(block, header, place).copy_(tensor)
    for tensor, header, place in zip(tensors, headers, places, strict=True):
        assert torch.equal(layout.view(block, header, place).float(), tensor.float())


@pytest.mark.parametrize("data", [b"", b"\0" * 11, b"\xff" * 28, b"\xff" * 200])
def test_a_header_of_garbage_is_refused(data: bytes) -> None:
    layout = importlib.import_module("d2k_agent.evaluator.layout")
    with pytest.raises(ValueError, match=r"."):
        layout.unpack_answer(data)
