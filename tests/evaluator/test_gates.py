"""Gates: what passes, what fails, and which comparison with nothing decides nothing."""

from __future__ import annotations

import importlib
import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from d2k_agent.contract import Check  # noqa: E402 - torch may be missing
from d2k_agent.evaluator.faults import TaskFault  # noqa: E402
from d2k_agent.evaluator.gates import Answer  # noqa: E402
from d2k_agent.evaluator.gates import compare as compare_answer  # noqa: E402


def compare(output: Any, expected: Any, *gates: dict[str, Any], **functions: Any) -> list[Check]:
    """Gates on one output called y; `functions` stand for those of check.py."""
    answer = Answer([], {"y": output}, {"y": expected}, {})
    return compare_answer(answer, gates, lambda name, *arguments: functions[name](*arguments))


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


def test_the_share_of_close_elements_reports_without_deciding() -> None:
    gate = {"gate": "allclose_share", "atol": 0.1, "rtol": 0.0}
    (check,) = compare(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 3.0]), gate)
    assert (check.value, check.passed) == (0.5, True)
    (check,) = compare(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 3.0]), gate | {"limit": 0.9})
    assert not check.passed
    assert "1 of 2 elements are further than 0.1 + 0 * |expected|" in check.message
    assert "the first at [1]" in check.message


def test_a_reported_gate_tells_and_does_not_decide() -> None:
    answer = Answer([], {"y": torch.ones(4)}, {"y": torch.zeros(4)}, {})
    near = {"gate": "close", "atol": 0.1, "rtol": 0.0}
    (check,) = compare_answer(answer, [], lambda *_: None, [near])
    assert (check.value, check.limit, check.passed) == (10.0, None, True)


def test_every_element_is_close_or_the_first_one_that_is_not_is_named() -> None:
    gate = {"gate": "close", "atol": 1e-6, "rtol": 1e-5}
    expected = torch.tensor([1.0, -math.inf, 100.0])
    (check,) = compare(torch.tensor([1.0, -math.inf, 100.0005]), expected, gate)
    assert check.passed
    assert check.value == pytest.approx(0.5, rel=0.01), "half of what is allowed"
    (check,) = compare(torch.tensor([1.0, -math.inf, 100.01]), expected, gate)
    assert not check.passed
    assert "1 of 3" in check.message and "[2]" in check.message
    assert compare(torch.tensor([1.0, -math.inf, 100.01]), expected, gate | {"share": 0.4})[0].passed
    (check,) = compare(torch.tensor([1.0, math.inf, 100.0]), expected, gate)
    assert not check.passed, "an infinity of the other sign"
    assert check.value is None


def test_without_any_tolerance_close_is_the_same() -> None:
    gate = {"gate": "close", "atol": 0.0, "rtol": 0.0}
    assert compare(torch.zeros(3), torch.zeros(3), gate)[0].passed
    assert not compare(torch.full((3,), 1e-30), torch.zeros(3), gate)[0].passed


@pytest.mark.parametrize("dtype", [torch.int32, torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.bool])
def test_exact_is_the_same_value(dtype: Any) -> None:
    expected = torch.tensor([1, 0, 1, 0]).to(dtype)
    assert compare(expected.clone(), expected, {"gate": "exact"})[0].passed
    (check,) = compare(torch.tensor([1, 0, 0, 0]).to(dtype), expected, {"gate": "exact"})
    assert (check.value, check.limit, check.passed) == (0.25, 0.0, False)
    assert compare(torch.zeros(4).to(dtype), expected, {"gate": "exact", "limit": 0.5})[0].passed


def test_exact_takes_zeros_of_both_signs_and_the_same_nan() -> None:
    expected = torch.tensor([0.0, math.nan])
    assert compare(torch.tensor([-0.0, math.nan]), expected, {"gate": "exact"})[0].passed


def test_a_slice_may_be_a_block_and_the_shorter_one_at_the_end_counts() -> None:
    expected = torch.ones(10, 3, 4)
    output = expected.clone()
    output[9, 1] = 0
    gate = {"gate": "slice", "block": [4, 1, 0], "limit": 0.8}
    (check,) = compare(output, expected, gate)
    assert check.value == pytest.approx(math.sqrt(1 / 2)), "the last block of the first dimension has two rows"
    assert "[2, 1, 0]" in compare(output, expected, gate | {"limit": 0.1})[0].message


def test_a_floor_keeps_small_slices_from_deciding() -> None:
    expected = torch.ones(9, 4)
    expected[3] = 1e-6
    output = expected.clone()
    output[3] = 2e-6
    gate = {"gate": "slice", "limit": 0.01}
    assert not compare(output, expected, gate)[0].passed
    assert compare(output, expected, gate | {"floor": 0.2})[0].passed


@pytest.mark.parametrize("gate", [NORM, ROWS, ROWS | {"gate": "slice", "block": [1, 0]}])
@pytest.mark.parametrize("other", [math.inf, 0.0])
def test_a_reference_that_is_not_finite_has_no_norm_and_is_said(gate: dict[str, Any], other: float) -> None:
    expected = torch.ones(2, 3)
    expected[1, 2] = math.inf
    output = expected.clone()
    output[1, 2] = other
    (check,) = compare(output, expected, gate)
    assert not check.passed
    assert "the reference is not finite, first at [1, 2], and has no norm" in check.message


@pytest.mark.parametrize("block", [[1], [1, 1, 1]])
def test_a_block_with_another_number_of_extents_is_the_tasks_fault(block: list[int]) -> None:
    with pytest.raises(TaskFault, match=r"hidden/workloads\.json: the block .* of its 2 dimensions"):
        compare(torch.ones(2, 3), torch.ones(2, 3), {"gate": "slice", "limit": 0.1, "block": block})


@pytest.mark.parametrize(
    "scores",
    [None, torch.zeros(2, 4), [], [torch.zeros(1, 4)], [torch.zeros(2, 4, dtype=torch.int64)], [torch.zeros(4)], [3]],
)
def test_scores_of_another_kind_are_the_tasks_fault(scores: object) -> None:
    ids = torch.tensor([[0, 1], [2, 3]])
    with pytest.raises(TaskFault, match=r"hidden/check\.py: scores must return a list of fp64 tensors \[2, n\]"):
        compare(ids.flip(1), ids, {"gate": "set", "margin": 0.1, "scores": "scores"}, scores=lambda _: scores)


@pytest.mark.parametrize("expected", [torch.tensor(3), torch.ones(2, 2)])
def test_a_selection_of_what_are_no_ids_is_the_tasks_fault(expected: Any) -> None:
    with pytest.raises(TaskFault, match="gate set is for ids"):
        compare(expected, expected, {"gate": "set", "margin": 0.1, "scores": "scores"})


def test_a_gate_is_for_its_rows_alone_and_is_named_after_them() -> None:
    expected = torch.arange(12.0).reshape(6, 2)
    output = expected.clone()
    output[::2] = torch.nan
    rows = torch.arange(6) % 2 == 1
    functions = {"odd": lambda inputs, outputs: rows, "none": lambda inputs, outputs: rows & ~rows}
    (check,) = compare(output, expected, {**NORM, "rows": "odd"}, **functions)
    assert (check.gate, check.value, check.passed) == ("rel_norm.odd", 0.0, True)
    output[1] = 0
    assert not compare(output, expected, {**NORM, "rows": "odd"}, **functions)[0].passed
    assert compare(output, expected, {**NORM, "rows": "none"}, **functions) == []
    with pytest.raises(TaskFault, match="half must return a bool tensor"):
        compare(output, expected, {**NORM, "rows": "half"}, half=lambda *_: torch.ones(6))


def test_an_output_may_be_judged_by_the_others_that_came_with_it() -> None:
    answer = Answer([2.0], {"ids": torch.tensor([1, 0]), "w": torch.tensor([4.0, 2.0])},
                    {"ids": torch.tensor([0, 1]), "w": torch.tensor([2.0, 4.0])}, {})  # fmt: skip
    gate = {"output": "w", "gate": "close", "atol": 0.0, "rtol": 0.0, "expect": "doubled"}
    (check,) = compare_answer(answer, [gate], lambda _, inputs, values: (values["ids"] + 1) * inputs[0])
    assert check.passed
    with pytest.raises(TaskFault, match="doubled must return a tensor with the shape of w"):
        compare_answer(answer, [gate], lambda *_: torch.ones(3))


def test_what_was_added_to_an_argument_is_judged_apart_from_what_it_held() -> None:
    before = torch.full((4,), 1000.0)
    answer = Answer([], {"acc": before + 1.0}, {"acc": before + 1.5}, {"acc": before})
    whole, change = {"gate": "rel_norm", "limit": 0.01}, {"gate": "rel_norm", "limit": 0.01, "change": True}
    assert compare_answer(answer, [whole], lambda *_: None)[0].passed
    assert compare_answer(answer, [change], lambda *_: None)[0].value == pytest.approx(1 / 3)


SET = {"gate": "set", "margin": 1e-3, "scores": "scores"}
SCORES = torch.tensor([[0.1, 0.9, 0.5, 0.5002, 0.5, -math.inf]] * 2).double()
RIGHT = torch.tensor([[1, 3, 2]] * 2)
ROWS_OF_IDS = {
    "the reference": ([1, 3, 2], True),
    "near scores in the other order": ([1, 2, 3], True),
    "near scores, one of them equal to a third": ([1, 2, 4], True),  # 0.5002 left out: it is near
    "the higher id of two equal scores": ([1, 3, 4], False),
    "equal scores in the wrong order": ([1, 4, 2], False),
    "a score too low": ([1, 3, 0], False),
    "an id twice": ([1, 3, 3], False),
    "an id out of range": ([1, 3, 77], False),
    "a place left empty": ([1, 3, -1], False),
    "what may not be chosen": ([1, 3, 5], False),
    "the best one last": ([3, 2, 1], False),
}


@pytest.mark.parametrize("name", ROWS_OF_IDS)
def test_near_scores_may_change_places_and_equal_ones_not(name: str) -> None:
    ids, right = ROWS_OF_IDS[name]
    (check,) = compare(torch.tensor([[1, 3, 2], ids]), RIGHT, SET, scores=lambda inputs: [SCORES])
    assert check.passed == right, check.message
    assert check.value == (0.0 if right else 0.5)


def test_a_selection_without_order_and_one_by_another_table_of_scores() -> None:
    other = torch.tensor([[0.9, 0.1, 0.2, 0.1, 0.3, 0.0]] * 2).double()
    output = torch.tensor([[3, 2, 1], [0, 4, 2]])
    both = {"scores": lambda inputs: [SCORES, other]}
    (check,) = compare(output, RIGHT, SET | {"ordered": False}, **both)
    assert check.passed
    (check,) = compare(output, RIGHT, SET, **both)
    assert (check.value, check.passed) == (0.5, False)
    assert "row [0]" in check.message


def test_rows_with_fewer_candidates_than_places_end_in_blanks() -> None:
    scores = torch.tensor([[0.3, 0.2]]).double()
    expected = torch.tensor([[0, 1, -1]])
    for ids, right in (([0, 1, -1], True), ([0, 1, 0], False), ([1, 0, -1], False), ([0, -1, 1], False)):
        (check,) = compare(torch.tensor([ids]), expected, SET, scores=lambda inputs: [scores])
        assert check.passed == right, ids


@pytest.mark.parametrize(("added", "calls", "right"), [(1, 1, True), (3, 3, True), (0, 1, False), (2, 1, False)])
def test_a_counter_is_its_start_plus_what_each_call_counts(added: int, calls: int, right: bool) -> None:
    before = torch.tensor([5, 2**31 - 1, 7], dtype=torch.int32)
    ids = torch.tensor([[0, 1], [1, -1]])
    after = (before.long() + added * torch.tensor([1, 2, 0])).to(torch.int32)
    answer = Answer([], {"ids": ids, "load": after}, {"ids": ids, "load": after}, {"load": before}, calls)
    gate = {"output": "load", "gate": "counter", "counts": "ids"}
    (check,) = compare_answer(answer, [gate], lambda *_: None)
    assert check.passed == right
    assert right or f"changed by {added} in 1 call, 1 is what was counted" in check.message


def test_a_counter_may_be_judged_in_some_of_its_rows() -> None:
    before, ids = torch.zeros(3, dtype=torch.int32), torch.tensor([[0, 2]])
    answer = Answer([], {"ids": ids, "load": torch.tensor([1, 9, 1], dtype=torch.int32)},
                    {"ids": ids, "load": before}, {"load": before})  # fmt: skip
    gate = {"output": "load", "gate": "counter", "counts": "ids", "rows": "some"}
    for rows, right in (([True, False, True], True), ([False, True, True], False)):
        (check,) = compare_answer(answer, [gate], lambda *_, rows=rows: torch.tensor(rows))
        assert (check.gate, check.passed) == ("counter.some", right)
    assert "element 1 changed by 9 in 1 call, 0 is what was counted" in check.message


def test_the_layout_round_trips_every_dtype() -> None:
    layout = importlib.import_module("d2k_agent.evaluator.layout")
    tensors = [torch.ones(3, 5).to(dtype) for dtype in layout.DTYPES]
    headers = tuple(layout.header_of(tensor) for tensor in tensors)
    answer = layout.AnswerHeader(headers, 17, 5, 23, "aten::mm", again=True)
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
