"""The score that a submission has to beat: that of the best eligible one before it, as the run's log tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from d2k_agent.config import RunConfig
    from d2k_agent.records import Event, RunFolder


class Incumbent:
    """Follows a run's log. It rests on nothing but the file, so a resumed run knows what the one before it knew."""

    def __init__(self, run: RunFolder, config: RunConfig, workloads: tuple[str, ...]) -> None:
        self._run = run
        self._turns = config.turns
        self._workloads = workloads
        self._read = 0
        self._judged: list[Event] = []

    def speedup(self) -> float | None:
        """The incumbent's geometric-mean speedup; None while nothing eligible was handed in."""
        from d2k_agent.agent import select
        from d2k_agent.records import Measured, Submitted, ToolCallInterrupted, VerdictReached, read_events, submissions

        found, self._read = read_events(self._run.events, self._read)
        telling = Submitted | VerdictReached | Measured | ToolCallInterrupted
        self._judged += [event for event in found if isinstance(event, telling)]
        chosen = select(submissions(self._judged), self._workloads, self._turns).selection
        return None if chosen is None else chosen.geomean_speedup
