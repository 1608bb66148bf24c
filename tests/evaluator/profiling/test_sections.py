"""Every kernel that holds most of the time is looked into, however often others are launched."""

from __future__ import annotations

from d2k_agent.evaluator.profiling.sections import MOST_LAUNCHES, Look, left_out, looks, several_passes
from d2k_agent.evaluator.profiling.table import Launch


def launches(*names: str) -> list[Launch]:
    return [Launch(name, (1,), (1,), None) for name in names]


def test_few_launches_are_looked_into_in_one_run() -> None:
    found = looks(launches("a", "void at::fill<int>(int)", "b", "other", "a"), ["a", "b"], ["fill"])
    assert found == [Look(("a", "b"), 4)]


def test_a_kernel_that_comes_after_forty_launches_of_another_has_a_run_of_its_own() -> None:
    found = looks(launches(*["a"] * 40, "b"), ["b", "a"], ["fill"])
    assert found == [Look(("b",), 1), Look(("a",), MOST_LAUNCHES)]


def test_launches_under_the_name_of_ours_do_not_use_up_the_count() -> None:
    found = looks(launches(*["at::fill"] * 30, "a", *["at::fill"] * 30, *["a"] * 40), ["a"], ["fill"])
    assert found == [Look(("a",), 60 + MOST_LAUNCHES)]


def test_what_was_asked_and_not_told_is_named() -> None:
    assert left_out(["a", "b"], {"a", "b"}, "counters of sections") == []
    assert left_out(["a", "b"], {"b"}, "counters of sections") == [
        "no counters of sections for a: the profiler told none"
    ]


def test_counters_of_several_passes_are_called_so() -> None:
    assert several_passes(None) == several_passes(1) == []
    (note,) = several_passes(2)
    assert note.startswith("each kernel ran 2 times") and "DRAM" in note
