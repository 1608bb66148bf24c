"""Why a request read less from the cache than the one before it left there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from d2k_agent.agent.cache_watch import CacheWatch
from d2k_agent.models import CachePlan, Usage
from d2k_agent.models.prefix import Prefix
from d2k_agent.records import CacheChecked, Compacted, ModelCallStarted, ModelReplied

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
PLACES = ["the tools", "the opening", "the opening", "reply 1", "the answer to bash in turn 1"]
MARKS = CachePlan(marks=True, points=(), ttl_s=300)


def prefix(*items: str) -> Prefix:
    made = Prefix()
    for item in items:
        made.grow({"content": item})
    return made


ONE, TWO = prefix("tools", "system", "go"), prefix("tools", "system", "go", "reply", "answer")


def started(call: int, sent: Prefix, seconds: float = 0.0) -> ModelCallStarted:
    when = NOON + timedelta(seconds=seconds)
    return ModelCallStarted(call=call, turn=call, items=len(sent), prefix_sha256=sent.digest(len(sent)), time=when)


def replied(call: int, usage: Usage, plan: CachePlan | None = MARKS, **parameters: Any) -> ModelReplied:
    return ModelReplied(
        call=call,
        turn=call,
        message={},
        finish_reason="stop",
        usage=usage,
        cost_usd=None,
        seconds=1.0,
        parameters=parameters,
        cache=plan,
    )


def second(
    reply: ModelReplied, sent: Prefix = TWO, seconds: float = 10.0, before: Prefix = ONE, compacted: bool = False
) -> CacheChecked | None:
    """The check of a second request; the first one left 1,100 tokens."""
    watch = CacheWatch()
    watch.started(started(1, before))
    watch.answered(replied(1, Usage(5, 100, 1_000, 9)))
    if compacted:
        step = Compacted(call=2, turn=2, results={"a": "x", "b": "y"}, saved_tokens=1, rewritten_tokens=1, why="")
        watch.compacted(step, "the answer to bash in turn 1")
    watch.started(started(2, sent, seconds))
    return watch.check(reply, sent, PLACES)


def why(check: CacheChecked | None) -> str | None:
    assert check is not None and check.expected == 1_100
    return check.why


def test_a_first_request_expects_nothing() -> None:
    watch = CacheWatch()
    watch.started(started(1, ONE))
    assert watch.check(replied(1, Usage(5, 100, 0, 9)), ONE, PLACES) == CacheChecked(
        call=1, turn=1, expected=0, observed=0
    )


def test_all_that_was_left_is_read_or_more() -> None:
    assert why(second(replied(2, Usage(5, 50, 1_100, 9)))) is None
    assert why(second(replied(2, Usage(5, 50, 1_400, 9)))) is None


def test_an_entry_that_died_is_told_with_both_times() -> None:
    told = why(second(replied(2, Usage(5, 1_200, 0, 9)), seconds=412))
    assert told == "the same beginning, but 412 s after the request before, and entries live 300 s"


def test_the_gap_that_the_client_measured_counts_before_the_logs() -> None:
    measured = CachePlan(marks=True, points=(), ttl_s=300, gap_s=20.0)
    told = why(second(replied(2, Usage(5, 1_200, 0, 9), measured), seconds=412))
    assert told is not None and "20 s after" in told and "did not keep it" in told


def test_shortened_results_are_told_with_the_first_of_them() -> None:
    moved = prefix("tools", "system", "gone", "reply", "answer")
    told = why(second(replied(2, Usage(5, 1_000, 200, 9)), moved, compacted=True))
    assert told == "before this request 2 old results became a digest, the first of them the answer to bash in turn 1"


def test_a_change_that_nothing_explains_says_where() -> None:
    changed = prefix("tools", "another system", "go", "reply", "answer")
    told = why(second(replied(2, Usage(5, 1_000, 200, 9)), changed))
    assert told == "the request differs from what was sent before from its first item on, and no event says why"


def test_other_parameters_are_named() -> None:
    told = why(second(replied(2, Usage(5, 1_200, 0, 9), reasoning_effort="high")))
    assert told == "the same beginning, but other parameters: reasoning_effort"


def test_what_only_the_provider_can_explain_is_said_so() -> None:
    told = why(second(replied(2, Usage(5, 1_200, 0, 9))))
    assert told == "the same beginning, byte for byte, 10 s after the request before: the provider did not keep it"


def test_a_provider_that_caches_by_itself_is_accused_of_nothing() -> None:
    blocks = CachePlan(marks=False, points=(), ttl_s=300, step_tokens=128)
    told = why(second(replied(2, Usage(5, 0, 0, 9), blocks)))
    assert told is not None and told.endswith("the provider did not use all of it, and promises no more")
    late = why(second(replied(2, Usage(5, 0, 0, 9), blocks), seconds=412))
    assert late is not None and late.endswith("and entries need not live longer than 300 s")


def test_a_block_less_is_no_miss_where_blocks_are_cached() -> None:
    blocks = CachePlan(marks=False, points=(), ttl_s=300, step_tokens=128)
    assert why(second(replied(2, Usage(5, 0, 1_000, 9), blocks))) is None
    assert why(second(replied(2, Usage(5, 0, 900, 9), blocks))) is not None


@pytest.mark.parametrize(
    "reply", [replied(2, Usage.unknown()), replied(2, Usage(5, 0, 10, 9), plan=None)], ids=["usage", "plan"]
)
def test_what_nobody_counted_is_not_compared(reply: ModelReplied) -> None:
    assert second(reply) is None
