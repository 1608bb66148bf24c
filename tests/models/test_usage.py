"""Four disjoint buckets out of every provider's way to report them."""

from __future__ import annotations

import pytest

from d2k_agent.models.usage import Usage, usage_from_report


def report(prompt: int = 10_000, completion: int = 500, **more: object) -> dict[str, object]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion, **more}


def test_cached_tokens_are_a_part_of_the_prompt() -> None:
    usage = usage_from_report(report(prompt_tokens_details={"cached_tokens": 9_000}))
    assert usage == Usage(uncached_input=1_000, cache_write=0, cache_read=9_000, output=500, reasoning=None)


def test_hit_and_miss_counters_say_the_same() -> None:
    assert usage_from_report(report(prompt_cache_hit_tokens=9_000, prompt_cache_miss_tokens=1_000)).cache_read == 9_000


def test_writes_and_reads_are_taken_out_of_the_prompt_once_however_often_they_are_named() -> None:
    usage = usage_from_report(
        report(
            13_012,
            prompt_tokens_details={"cached_tokens": 9_000, "cache_creation_tokens": 4_000, "cache_write_tokens": 4_000},
            cache_read_input_tokens=9_000,
            cache_creation_input_tokens=4_000,
        )
    )
    assert (usage.uncached_input, usage.cache_write, usage.cache_read) == (12, 4_000, 9_000)


def test_a_prompt_smaller_than_its_cached_part_is_the_uncached_part() -> None:
    usage = usage_from_report(report(12, cache_read_input_tokens=9_000, cache_creation_input_tokens=4_000))
    assert (usage.uncached_input, usage.cache_write, usage.cache_read) == (12, 4_000, 9_000)


def test_reasoning_is_a_part_of_the_output() -> None:
    usage = usage_from_report(report(1_000, 900, completion_tokens_details={"reasoning_tokens": 800}))
    assert (usage.output, usage.reasoning) == (900, 800)


def test_reasoning_counted_beside_the_completion_is_added_when_the_total_says_so() -> None:
    beside = {"prompt_tokens": 1_000, "completion_tokens": 100, "total_tokens": 1_900}
    usage = usage_from_report({**beside, "completion_tokens_details": {"reasoning_tokens": 800}})
    assert (usage.output, usage.reasoning) == (900, 800)


def test_without_a_word_on_the_cache_nobody_knows_how_the_prompt_was_split() -> None:
    for silent in ({}, {"prompt_tokens_details": None}, {"prompt_tokens_details": {"cached_tokens": None}}):
        usage = usage_from_report(report(**silent))
        assert usage == Usage(None, None, None, 500, unsplit_input=10_000)
        assert not usage.known


def test_a_count_of_zero_cached_tokens_is_a_count() -> None:
    assert usage_from_report(report(prompt_tokens_details={"cached_tokens": 0})) == Usage(10_000, 0, 0, 500)


def test_writes_alone_do_not_tell_the_reads() -> None:
    assert usage_from_report(report(cache_creation_input_tokens=4_000)) == Usage(None, 4_000, None, 500, None, 6_000)


@pytest.mark.parametrize("nothing", [None, {}, report(0, 0), {"prompt_tokens": 10}, {"prompt_tokens": None}])
def test_what_nobody_counted_is_unknown_and_never_zero(nothing: dict[str, object] | None) -> None:
    usage = usage_from_report(nothing)
    assert usage == Usage.unknown()
    assert not usage.known


@pytest.mark.parametrize(
    ("buckets", "words"),
    [((-1, 0, 0, 0), "number of tokens"), ((1, 0, 0, 5, 6), "part of output"), ((1, 0, 0, None, 6), "part of output")],
)
def test_impossible_usage_cannot_be_made(buckets: tuple[int, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Usage(*buckets)
