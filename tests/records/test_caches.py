"""What a run's records say of its provider's cache: sums that hide nothing, and what a digest saved and cost."""

from __future__ import annotations

from decimal import Decimal

import pytest

from d2k_agent.models import CachePlan, PriceRow, Rates, Tier, Usage
from d2k_agent.records import CacheChecked, Compacted, ModelReplied, cache_record
from d2k_agent.reports.cache_text import cache_data, cache_lines, check_text

DEAR = Rates(Decimal(10), Decimal(50), Decimal("12.5"), Decimal(20), Decimal(1))
PRICE = PriceRow(
    "m",
    "page",
    None,
    Rates(Decimal(5), Decimal(25), Decimal("6.25"), Decimal(10), Decimal("0.5")),
    (Tier(200_000, DEAR),),
)
STEP = Compacted(call=5, turn=5, results={"a": "x"}, saved_tokens=1_000_000, rewritten_tokens=1_000_000, why="w")


def replied(ttl_s: int, tokens: int = 1_000) -> ModelReplied:
    return ModelReplied(
        call=5,
        turn=5,
        message={},
        finish_reason=None,
        usage=Usage(0, tokens, 0, 5),
        cost_usd=None,
        seconds=1.0,
        cache=CachePlan(True, (), ttl_s),
    )


def checked(call: int, expected: int, observed: int, why: str | None = None) -> CacheChecked:
    return CacheChecked(call=call, turn=call, expected=expected, observed=observed, why=why)


def test_what_one_request_reads_beyond_its_share_hides_no_miss_of_another() -> None:
    record = cache_record([checked(1, 0, 4_000), checked(2, 5_000, 1_000, "late"), checked(3, 6_000, 6_000)], None)
    assert (record.expected, record.observed, record.unexpected) == (11_000, 7_000, 4_000)
    assert next(iter(cache_lines(record))) == (
        "cache: 7,000 of 11,000 expected tokens were read in 3 requests, and 4,000 that nobody expected."
    )
    data = cache_data(record)
    assert (data["observed_tokens"], data["unexpected_tokens"]) == (7_000, 4_000)


def test_a_request_that_reads_more_is_not_told_as_more_than_all() -> None:
    assert check_text(checked(2, 1_100, 1_400)) == (
        "request 2 read 1,100 of 1,100 expected cached tokens, and 300 that nobody expected"
    )


def test_a_request_that_was_never_answered_has_the_turn_that_it_was_for() -> None:
    asks = {"tool_calls": [{"id": "a", "type": "function", "function": {"name": "read", "arguments": "{}"}}]}
    for since, turn in (([], 5), ([replied(300)], None), ([replied(300).model_copy(update={"message": asks})], 5)):
        data = cache_data(cache_record([STEP, *since, checked(5, 9, 0, "late")], None))
        assert [data["compactions"][0]["turn"], data["misses"][0]["turn"]] == [turn, turn]


@pytest.mark.parametrize(
    ("since", "saved", "rewritten"),
    [
        ([replied(300)], "0.5", "5.75"),
        ([replied(3600)], "0.5", "9.5"),
        ([replied(3600), replied(300)], "1", "9.5"),
        ([replied(3600, 200_001), replied(300)], "1.5", "19"),
        ([], None, None),
    ],
    ids=["5 min", "1 h", "two", "long", "none since"],
)
def test_a_digest_is_priced_for_the_lifetime_and_the_length_of_the_requests_since(
    since: list[ModelReplied], saved: str | None, rewritten: str | None
) -> None:
    (step,) = cache_record([replied(300), STEP, *since], PRICE).compactions
    wanted = [None if usd is None else Decimal(usd) for usd in (saved, rewritten)]
    assert [step.saved_usd, step.rewritten_usd] == wanted
