"""What a process is told to time, and what becomes of answers that no process gives that times anything."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, cast

import pytest

pytest.importorskip("torch")

from d2k_agent.contract import Limits, VerdictStatus
from d2k_agent.evaluator.faults import CandidateFault
from d2k_agent.evaluator.process import CandidateProcess
from d2k_agent.evaluator.timing import pieces
from d2k_agent.evaluator.timing.pieces import TimedPieces
from d2k_agent.evaluator.timing.timed import CLAIM
from tests.evaluator.timed_cpu import TimedCpu


class Told:
    """Stands at the other end of the channel: keeps the orders, and answers that replays took so long each.

    `seconds` are those of one answer after the other, the last again and again.
    """

    def __init__(self, *seconds: float) -> None:
        self.orders: list[dict[str, Any]] = []
        self.seconds = list(seconds)

    def order(self, request: dict[str, Any], _descriptors: Sequence[int] = ()) -> None:
        self.orders.append(request)

    def answer(self, _expected: bytes, _limit_s: float, _doing: str) -> bytes:
        times = self.orders[-1].get("times", 0)
        if times:
            time.sleep(times * (self.seconds.pop(0) if self.seconds[1:] else self.seconds[0]))
        return CLAIM.pack(max(1, times), 1.0)

    @property
    def times(self) -> list[int]:
        """Of each order to replay."""
        return [order["times"] for order in self.orders if "times" in order]


def asked(*seconds: float) -> tuple[Told, TimedPieces]:
    told = Told(*seconds)
    return told, TimedPieces(cast(CandidateProcess, told), TimedCpu(), Limits(), "large", 1)


def test_nobody_knows_which_round_of_a_graph_is_kept() -> None:
    told, timed = asked(0.0)
    for _ in range(200):
        timed.capture(4, 16)
    timed.close()
    assert {order["keep"] for order in told.orders} == {0, 1, 2, 3}


@pytest.mark.parametrize("replay_s", [0.02, 0.07, 0.2])
def test_replays_last_as_long_as_was_asked_for_and_are_no_more_than_that_takes(replay_s: float) -> None:
    told, timed = asked(replay_s)
    timed.capture(1, 1)
    timed.replays(0.1)
    timed.close()
    assert (told.times[-1] - 1) * replay_s < 0.1
    assert told.times[-1] * replay_s >= 0.9 * 0.1, "a try may take a little longer than the sleep that was asked for"


def test_one_try_that_was_held_up_makes_no_segment_short() -> None:
    told, timed = asked(0.3, 0.02)
    timed.replays(0.1)
    timed.close()
    assert told.times[:3] == [1, 1, 1] and told.times[3] in (4, 5)


def test_what_is_quicker_than_it_was_while_it_was_tried_is_replayed_more_often_the_next_time() -> None:
    told, timed = asked(0.1, 0.1, 0.1, 0.02)
    timed.replays(0.1)
    timed.replays(0.1)
    timed.close()
    assert told.times[:4] == [1, 1, 1, 1] and told.times[4] in (4, 5)


def test_another_graph_is_tried_anew() -> None:
    told, timed = asked(0.02)
    timed.replays(0.1)
    told.seconds = [0.2]
    timed.capture(1, 1)
    timed.replays(0.1)
    timed.close()
    assert told.times[-4:] == [1, 1, 1, 1]


def test_replays_of_less_than_a_try_are_tried_together() -> None:
    told, timed = asked(0.003)
    timed.replay_ms()
    timed.close()
    assert told.times[:3] == [1, 2, 4] and len(told.times) <= 9


def test_a_process_that_replays_nothing_is_not_asked_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "MOST_TRIED", 64)
    told, timed = asked(0.0)
    with pytest.raises(CandidateFault, match="answered out of protocol") as caught:
        timed.replay_ms()
    timed.close()
    assert caught.value.status is VerdictStatus.ENDED_EARLY
    assert told.times == [1, 2, 4, 8, 16, 32, 64]
