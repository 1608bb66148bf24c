"""Totals: unknown is not zero, and a sum with a gap says that it is a lower bound."""

from __future__ import annotations

from typing import Any

from d2k_agent.models import Usage
from d2k_agent.records import Event, ModelCallFailed, ModelCallInterrupted, ModelReplied, total


def replied(usage: Usage, cost_usd: float | None = None, **more: Any) -> ModelReplied:
    return ModelReplied(
        call=1, turn=1, message={}, finish_reason="stop", usage=usage, cost_usd=cost_usd, seconds=2.0, **more
    )


FIRST = replied(Usage(10, 20, 0, 5, 2), 0.25)
SECOND = replied(Usage(1, 0, 30, 7, None), 0.5)


def test_known_usage_adds_up() -> None:
    totals = total([FIRST, SECOND])

    assert totals.usage == Usage(11, 20, 30, 12, 2)
    assert (totals.cost_usd, totals.replies, totals.seconds) == (0.75, 2, 4.0)
    assert not totals.lower_bound and not totals.cost_lower_bound


def test_a_run_without_any_usage_is_unknown_and_not_zero() -> None:
    totals = total([replied(Usage.unknown()), replied(Usage.unknown())])

    assert totals.usage == Usage.unknown()
    assert totals.cost_usd is None
    assert (totals.unreported_replies, totals.lost_attempts) == (2, 0)
    assert totals.lower_bound and totals.cost_lower_bound


def test_nothing_asked_is_nothing_unknown() -> None:
    totals = total([])

    assert totals.usage == Usage.unknown() and totals.cost_usd is None
    assert not totals.lower_bound


def test_whatever_may_have_been_billed_unseen_makes_a_lower_bound() -> None:
    gaps: list[Event] = [
        replied(Usage.unknown(), None),
        replied(Usage(1, 1, 1, 1), 0.1, unknown_attempts=1),
        ModelCallInterrupted(call=2),
        ModelCallFailed(call=2, reason="500", may_be_billed=True),
    ]
    for gap in gaps:
        totals = total([FIRST, gap])
        assert totals.lower_bound and totals.cost_lower_bound
        assert totals.unreported_replies + totals.lost_attempts == 1
        assert totals.usage.uncached_input is not None and totals.usage.uncached_input >= 10


def test_input_that_nobody_split_is_kept_apart() -> None:
    totals = total([FIRST, replied(Usage(None, None, None, 1, unsplit_input=500), 0.1)] * 2)

    assert totals.usage == Usage(20, 40, 0, 12, 4, unsplit_input=1_000)
    assert totals.unreported_replies == 2 and totals.lower_bound and not totals.cost_lower_bound


def test_every_attempt_of_a_failed_call_is_counted_and_no_reply_is_blamed() -> None:
    failed = ModelCallFailed(call=2, reason="hung up", may_be_billed=True, unknown_attempts=3)
    totals = total([FIRST, failed, replied(Usage(1, None, None, 1), 0.1, unknown_attempts=2)])

    assert (totals.unreported_replies, totals.lost_attempts) == (1, 5)


def test_a_request_that_no_provider_worked_on_is_no_gap() -> None:
    totals = total([FIRST, ModelCallFailed(call=2, reason="too long", may_be_billed=False)])

    assert not totals.lower_bound


def test_a_price_nobody_knows_bounds_the_cost_alone() -> None:
    totals = total([FIRST, replied(Usage(1, 1, 1, 1), None)])

    assert totals.cost_usd == 0.25
    assert (totals.lower_bound, totals.cost_lower_bound) == (False, True)
