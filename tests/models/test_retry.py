"""How long the retry layer waits, and when it stops. No clock runs here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from d2k_agent.errors import ModelError, UsageError
from d2k_agent.models.retry import Attempted, Passing, RetryPolicy, ask_with_retry

POLICY = RetryPolicy(attempts=5, first_wait_s=1.0, longest_wait_s=3.0, longest_asked_s=100.0)


def run(outcomes: list[Any], jitter: float = 0.0, policy: RetryPolicy = POLICY) -> tuple[Attempted[Any], list[float]]:
    """Ask until an outcome is no exception; the judge returns what the exception carries."""
    waits: list[float] = []
    remaining = iter(outcomes)

    def ask() -> Any:
        outcome = next(remaining)
        if isinstance(outcome, (Passing, ModelError, UsageError)):
            raise RuntimeError(outcome)
        return outcome

    judge: Callable[[Exception], Any] = lambda error: error.args[0]  # noqa: E731
    return ask_with_retry(ask, judge, policy, waits.append, lambda: jitter, lambda line: None), waits


def test_waits_double_up_to_the_longest_and_jitter_spreads_them() -> None:
    busy = Passing("busy")
    assert run([busy] * 4 + ["ok"])[1] == [0.5, 1.0, 1.5, 1.5]
    assert run([busy] * 4 + ["ok"], jitter=0.5)[1] == [0.75, 1.5, 2.25, 2.25]


def test_the_provider_is_never_asked_earlier_than_it_said() -> None:
    assert run([Passing("busy", after_s=10.0), "ok"])[1] == [10.0]
    assert run([Passing("busy", after_s=10.0), "ok"], jitter=0.9)[1] == [10.9]


def test_a_short_wait_that_is_asked_for_does_not_switch_the_back_off_off() -> None:
    assert run([Passing("busy", after_s=1.0)] * 4 + ["ok"])[1] == [1.0, 1.0, 1.5, 1.5]
    assert run([Passing("busy", after_s=0.0)] * 3 + ["ok"], jitter=0.5)[1] == [0.75, 1.5, 2.25]


def test_attempts_that_may_have_been_billed_are_counted() -> None:
    answer, _ = run([Passing("late", maybe_billed=True), Passing("busy"), Passing("cut", maybe_billed=True), "ok"])
    assert answer == Attempted("ok", attempts=4, unknown_attempts=2)


def test_a_call_that_fails_for_good_says_how_many_attempts_may_have_been_billed() -> None:
    late, busy = Passing("late", maybe_billed=True), Passing("busy")
    for outcomes in (
        [late, busy, late, busy, busy],
        [late, late, UsageError("set the key")],
        [late, ModelError("x", 1)],
    ):
        with pytest.raises((ModelError, UsageError)) as caught:
            run(outcomes)
        assert caught.value.unknown_attempts == 2


def test_attempts_are_bounded_and_nobody_waits_after_the_last() -> None:
    policy = RetryPolicy(attempts=1)
    with pytest.raises(ModelError, match="busy; gave up after 1 attempt: resume"):
        run([Passing("busy")], policy=policy)


def test_what_cannot_pass_is_raised_at_once_without_the_foreign_exception() -> None:
    with pytest.raises(UsageError, match="set the key") as caught:
        run([UsageError("set the key"), "never asked"])
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_what_may_not_happen_twice_ends_it_the_second_time() -> None:
    strange = Passing("a web page", maybe_billed=True, when_repeated=UsageError("check the address"))
    assert run([strange, Passing("busy"), "ok"])[0].attempts == 3
    with pytest.raises(UsageError, match="check the address") as caught:
        run([strange, Passing("busy"), strange, "never asked"])
    assert caught.value.unknown_attempts == 2


def test_a_request_to_wait_longer_than_allowed_ends_it() -> None:
    with pytest.raises(ModelError, match="asks to wait 101 s"):
        run([Passing("busy", after_s=101.0), "ok"])
