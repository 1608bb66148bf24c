"""What a process is told to time, and what becomes of answers that no process gives that times anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import pytest

pytest.importorskip("torch")

from d2k_agent.contract import Limits, VerdictStatus
from d2k_agent.evaluator.faults import CandidateFault
from d2k_agent.evaluator.process import CandidateProcess
from d2k_agent.evaluator.ranges import Kind
from d2k_agent.evaluator.task import LoadedTask
from d2k_agent.evaluator.timing import pieces
from d2k_agent.evaluator.timing.measure import WorkloadTimer
from d2k_agent.evaluator.timing.pieces import TimedPieces
from d2k_agent.evaluator.timing.segment import Segment
from d2k_agent.evaluator.timing.timed import CLAIM
from tests.evaluator import scaling
from tests.evaluator.timed_cpu import TimedCpu, short_policy


class Told:
    """Stands at the other end of the channel: keeps the orders, and answers that replays took so long each.

    `seconds` are those of one answer after the other, the last again and again. No time passes but by its clock.
    """

    def __init__(self, *seconds: float) -> None:
        self.orders: list[dict[str, Any]] = []
        self.seconds = list(seconds)
        self.now = 0.0

    def order(self, request: dict[str, Any], _descriptors: Sequence[int] = ()) -> None:
        self.orders.append(request)

    def answer(self, _expected: bytes, _limit_s: float, _doing: str) -> bytes:
        times = self.orders[-1].get("times", 0)
        if times:
            self.now += times * (self.seconds.pop(0) if self.seconds[1:] else self.seconds[0])
        return CLAIM.pack(max(1, times), 1.0)

    @property
    def times(self) -> list[int]:
        """Of each order to replay."""
        return [order["times"] for order in self.orders if "times" in order]


Asked = Callable[..., tuple[Told, TimedPieces]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    made: list[TimedPieces] = []

    def make(*seconds: float) -> tuple[Told, TimedPieces]:
        told = Told(*seconds)
        monkeypatch.setattr(pieces.time, "perf_counter", lambda: told.now)
        made.append(TimedPieces(cast(CandidateProcess, told), TimedCpu(), Limits(), "large", 1))
        return told, made[-1]

    yield make
    for item in made:
        item.close()


def test_nobody_knows_which_round_of_a_graph_is_kept(asked: Asked) -> None:
    told, timed = asked(0.0)
    for _ in range(200):
        timed.capture(4, 16)
    assert {order["keep"] for order in told.orders} == {0, 1, 2, 3}


@pytest.mark.parametrize(("replay_s", "times"), [(0.02, 5), (0.07, 2), (0.2, 1), (0.003, 34)])
def test_replays_last_as_long_as_was_asked_for_and_are_no_more_than_that_takes(
    asked: Asked, replay_s: float, times: int
) -> None:
    told, timed = asked(replay_s)
    timed.replays(0.0999)
    assert told.times[-1] == times


def test_one_try_that_was_held_up_makes_no_segment_short(asked: Asked) -> None:
    told, timed = asked(0.3, 0.02)
    timed.replays(0.099)
    assert told.times == [1, 1, 1, 5]


def test_what_took_another_time_than_its_tries_is_replayed_as_often_as_that_tells(asked: Asked) -> None:
    told, timed = asked(0.1, 0.1, 0.1, 0.02, 0.3, 0.05)
    for _ in range(4):
        timed.replays(0.099)
    assert told.times == [1, 1, 1, 1, 5, 1, 2]


def test_another_graph_is_tried_anew(asked: Asked) -> None:
    told, timed = asked(0.02)
    timed.replays(0.099)
    told.seconds = [0.2]
    timed.capture(1, 1)
    timed.replays(0.099)
    assert told.times == [1, 1, 1, 5, 1, 1, 1, 1]


def test_replays_of_less_than_a_try_are_tried_together(asked: Asked) -> None:
    told, timed = asked(0.003)
    assert timed.replay_ms() == pytest.approx(3.0)
    assert told.times == [1, 2, 4] * 3


def test_a_process_that_replays_nothing_is_not_asked_for_ever(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "MOST_TRIED", 64)
    told, timed = asked(0.0)
    with pytest.raises(CandidateFault, match="answered out of protocol") as caught:
        timed.replay_ms()
    assert caught.value.status is VerdictStatus.ENDED_EARLY
    assert told.times == [1, 2, 4, 8, 16, 32, 64]


class Scripted(WorkloadTimer):
    """A timer whose pieces last as long as was written down before, seconds each; they follow no process."""

    def follow(self, *walls_s: float) -> None:
        self.walls_s, self.done = list(walls_s), list[str]()

    def _segment(self, seconds: float, kind: Kind = "batch") -> Segment:
        self.done.append(kind)
        wall_ms = 1e3 * self.walls_s.pop(0)
        return Segment(10, wall_ms, wall_ms)

    def _refresh_some(self) -> None:
        self.done.append("new contents")

    def _verify(self, calls: int, inspect: bool, most: int | None = None) -> None:
        self.done.append("compared")


@pytest.mark.parametrize(
    ("walls_s", "suspicions"),
    [
        ([0.1, 0.1, 0.3, 0.3], set()),
        ([0.02, 0.05, 0.03, 0.3, 0.1, 0.2, 0.3], set()),
        ([0.1, 0.3, 0.05, 0.1, 0.2, 0.2], {"timing.short"}),
    ],
)
def test_a_piece_that_was_much_too_short_is_asked_for_again(walls_s: list[float], suspicions: set[str]) -> None:
    process, task = cast(CandidateProcess, Told(0.0)), LoadedTask(scaling.task())
    timer = Scripted(task, TimedCpu(), process, task.registered[0], "5e" * 32, Limits(), lambda _: None)
    timer._policy = short_policy(segment_s=0.3)
    timer.follow(*walls_s)
    found = timer.measure(audited=False)
    timer._pieces.close()
    assert set(found.suspicions) == suspicions
    warmed = next(number for number in range(1, 9) if sum(walls_s[:number]) >= 0.08)
    assert timer.walls_s == [] and timer.done[:warmed] == ["warm-up"] * warmed
    assert timer.done[warmed:] == ["new contents", "batch", "compared"] * (len(walls_s) - warmed)
    assert found.measurement.batches == 2
