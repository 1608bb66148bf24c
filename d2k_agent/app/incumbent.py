"""The submissions so far, and the score that the next has to beat: that of the best eligible one, as the log tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from d2k_agent.config import RunConfig
    from d2k_agent.contract import Measurement
    from d2k_agent.records import Choice, Event, RunFolder, Submission


class Incumbent:
    """Follows a run's log. It rests on nothing but the file, so a resumed run knows what the one before it knew."""

    def __init__(self, run: RunFolder, config: RunConfig, workloads: tuple[str, ...]) -> None:
        self._run = run
        self._turns = config.turns
        self._workloads = workloads
        self._read = 0
        self._judged: list[Event] = []
        self._profiled: list[Event] = []

    def speedup(self) -> float | None:
        """The incumbent's geometric-mean speedup; None while nothing eligible was handed in."""
        chosen = self.choice()
        return None if chosen is None else chosen.geomean_speedup

    def choice(self) -> Choice | None:
        """The incumbent; None while nothing eligible was handed in."""
        from d2k_agent.agent import select

        return select(self.submissions(), self._workloads, self._turns).selection

    def submissions(self) -> tuple[Submission, ...]:
        """What was handed in so far, in order."""
        from d2k_agent.records import submissions

        self._catch_up()
        return submissions(self._judged)

    def measured(self, sha256: str, label: str) -> Measurement | None:
        """The latest measurement of a candidate on a workload; None where it was not measured."""
        from d2k_agent.records import Measured

        self._catch_up()
        found = [
            time.measurement
            for event in self._judged
            if isinstance(event, Measured) and event.sha256 == sha256
            for time in event.times.workloads
            if time.label == label and time.measurement is not None
        ]
        return found[-1] if found else None

    def profiled(self) -> list[Event]:
        """The answers of the tool `profile` so far."""
        self._catch_up()
        return self._profiled

    def _catch_up(self) -> None:
        from d2k_agent.records import (
            Measured,
            Submitted,
            ToolCallInterrupted,
            ToolFinished,
            VerdictReached,
            read_events,
        )

        found, self._read = read_events(self._run.events, self._read)
        telling = Submitted | VerdictReached | Measured | ToolCallInterrupted
        self._judged += [event for event in found if isinstance(event, telling)]
        self._profiled += [event for event in found if isinstance(event, ToolFinished) and event.name == "profile"]
