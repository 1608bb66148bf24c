"""The one retry layer: back-off with jitter, the provider's own Retry-After, a bounded number of attempts.

Covers: when to ask again and how long to wait. Does not cover: what a failure means (faults).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from d2k_agent.contract.wording import counted
from d2k_agent.errors import D2KError, ProviderAway

T = TypeVar("T")


@dataclass(frozen=True)
class RetryPolicy:
    """Waits double from `first_wait_s` to `longest_wait_s`; a provider may ask for up to `longest_asked_s`.

    `way_on` says what to do once it answers again, or a failure is mended.
    """

    attempts: int = 8
    first_wait_s: float = 1.0
    longest_wait_s: float = 60.0
    longest_asked_s: float = 900.0
    way_on: str = "resume the run"


@dataclass(frozen=True)
class Passing:
    """A failure that may pass. `after_s` is how long the provider asked to wait, None where it did not say.

    `maybe_billed` is True where the provider may have done the work although no answer came. `when_repeated` is what
    to raise where the same happens a second time, None for a failure that may take its time to pass.
    """

    reason: str
    after_s: float | None = None
    maybe_billed: bool = False
    when_repeated: D2KError | None = None


@dataclass(frozen=True)
class Attempted(Generic[T]):
    """What came of it, after how many attempts, and how many of them may have been billed without an answer."""

    value: T
    attempts: int
    unknown_attempts: int


def ask_with_retry(
    ask: Callable[[], T],
    judge: Callable[[Exception], Passing | D2KError],
    policy: RetryPolicy,
    wait: Callable[[float], None],
    jitter: Callable[[], float],
    notice: Callable[[str], None],
) -> Attempted[T]:
    """Ask until an answer comes. `wait` takes seconds, `jitter` gives a number in [0, 1), `notice` a line to show.

    Raises what `judge` makes of a failure that cannot pass, and ProviderAway when the attempts are used up;
    both say how many attempts may have been billed.
    """
    unknown, repeated = 0, False
    for attempt in itertools.count(1):
        try:
            return Attempted(ask(), attempt, unknown)
        except Exception as error:  # noqa: BLE001 - a provider's library raises what it likes; judge translates it
            fault: Passing | D2KError = judge(error)
        if isinstance(fault, Passing):
            unknown += fault.maybe_billed
            if fault.when_repeated is not None and repeated:
                fault = fault.when_repeated
            else:
                repeated = repeated or fault.when_repeated is not None
        if isinstance(fault, D2KError):
            fault.unknown_attempts += unknown
            raise fault from None  # the foreign exception may hold a key
        if attempt >= policy.attempts:
            words = f"gave up after {counted(attempt, 'attempt')}: {policy.way_on} when it answers again"
            raise ProviderAway(f"{fault.reason}; {words}", unknown)
        if fault.after_s is not None and fault.after_s > policy.longest_asked_s:
            words = f"it asks to wait {fault.after_s:.0f} s: {policy.way_on} after that"
            raise ProviderAway(f"{fault.reason}; {words}", unknown)
        seconds = _pause(policy, attempt, fault.after_s, jitter())
        notice(f"{fault.reason}; attempt {attempt + 1} of {policy.attempts} in {seconds:.0f} s")
        wait(seconds)
    raise AssertionError("an endless loop ended")


def _pause(policy: RetryPolicy, attempt: int, asked_s: float | None, jitter: float) -> float:
    """Seconds until the next attempt: never less than asked for, nor than the back-off, which a provider that always
    asks for a second would switch off; spread so that runs do not return together."""
    backed_off_s = min(policy.longest_wait_s, policy.first_wait_s * 2.0 ** (attempt - 1)) * (0.5 + 0.5 * jitter)
    return backed_off_s if asked_s is None else max(backed_off_s, asked_s + jitter * policy.first_wait_s)
