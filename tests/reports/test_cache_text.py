"""What a run read from its provider's cache: a cause is told once, with how often it was one."""

from __future__ import annotations

import pytest

from d2k_agent.records import CacheChecked
from d2k_agent.records.caches import CacheRecord
from d2k_agent.reports.cache_text import MOST_MISSES, cache_lines, cause_of


def half(call: int) -> CacheChecked:
    why = f"the same beginning, byte for byte, {call + 10} s after the request before: the provider did not use all"
    return CacheChecked(call=call, turn=call, expected=1_000 * call, observed=500 * call, why=why)


def lines(*misses: CacheChecked) -> list[str]:
    expected, observed = sum(miss.expected for miss in misses), sum(miss.observed for miss in misses)
    return list(cache_lines(CacheRecord(len(misses), expected, observed, 0, misses, (), frozenset())))


def test_requests_that_missed_for_one_reason_are_one_line() -> None:
    none = CacheChecked(call=6, turn=6, expected=6_000, observed=0, why=half(6).why)
    other = CacheChecked(call=4, turn=4, expected=4_000, observed=0, why="but other parameters: seed")
    total, first, second, third = lines(half(2), half(3), other, half(5), none)
    assert total == "cache: 5,000 of 20,000 expected tokens were read in 5 requests."
    assert first.startswith("request 2 read 1,000 of 2,000 expected cached tokens: the same beginning")
    assert first.endswith(" So did 2 later requests, for the same reason: 5,000 expected tokens in all were not read.")
    assert second == "request 4 read 0 of 4,000 expected cached tokens: but other parameters: seed."
    assert third.startswith("request 6 read 0 of 6,000"), "nothing at all is no half"


@pytest.mark.parametrize(
    ("why", "other", "same"),
    [
        ("not the same behind reply 12", "not the same behind reply 13", False),
        ("behind the answer to read in turn 5", "behind the answer to read in turn 6", False),
        ("1 old result became a digest", "12 old results became a digest", True),
        (
            "61 s after the request before, and entries live 60 s",
            "1,200.5 s after the request before, and entries live 300 s",
            True,
        ),
        ("other parameters: top_k1", "other parameters: top_k2", False),
    ],
)
def test_places_are_reasons_apart_and_seconds_and_amounts_are_none(why: str, other: str, same: bool) -> None:
    one, two = (CacheChecked(call=2, turn=2, expected=9, observed=0, why=told) for told in (why, other))
    assert (cause_of(one) == cause_of(two)) is same
    assert len(lines(one, two)) == (2 if same else 3)


def test_only_so_many_reasons_are_told_and_the_rest_is_counted() -> None:
    misses = [
        CacheChecked(call=at, turn=at, expected=9, observed=0, why=f"reason {chr(97 + at)}") for at in range(1, 12)
    ]
    told = lines(*misses)
    assert len(told) == MOST_MISSES + 2
    assert told[-1] == "3 more requests read less than expected; `trace show` says why."
