"""The range of a turn: without a profiler there is none, and with one it is the turn's."""

from __future__ import annotations

import os
import time

import pytest

from d2k_agent.agent.ranges import DOMAIN, TurnRanges, range_name


class Recording:
    """The part of NVTX's domain that ranges use, written down."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def get_event_attributes(self, message: str) -> str:
        return message

    def start_range(self, attributes: str) -> int:
        self.seen.append(attributes)
        return len(self.seen)

    def end_range(self, number: int) -> None:
        self.seen.append(f"end of {self.seen[number - 1]}")


def test_a_turn_lasts_from_its_request_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    domain, asked = Recording(), []
    monkeypatch.setattr("nvtx.get_domain", lambda name: asked.append(name) or domain)
    turns = TurnRanges()
    for node, closed in (("prepare", 0), ("call_model", 0), ("run_tool", 0), ("close_turn", 0), ("call_model", 1)):
        turns.entering(node, closed)
    turns.entering("select", 1)
    turns.entering("finalise", 1)
    assert asked == [DOMAIN] == ["d2k_agent"]
    assert domain.seen == ["turn 1", "end of turn 1", "turn 2", "end of turn 2"]
    assert range_name(7) == "turn 7"


@pytest.mark.skipif("NVTX_INJECTION64_PATH" in os.environ, reason="a profiler watches")
def test_without_a_profiler_a_range_costs_nothing_to_speak_of() -> None:
    turns = TurnRanges()
    assert type(turns._domain).__name__ == "DummyDomain"
    began = time.process_time()
    for turn in range(10_000):
        turns.entering("call_model", turn)
    assert time.process_time() - began < 1.0, "100 us a turn, which lasts seconds"
