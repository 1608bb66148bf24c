"""The list of runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from d2k_agent.reports.tables import count, size, table


@dataclass(frozen=True)
class RunSummary:
    """One run in a line. `outcome` is its stop reason, or running, interrupted, damaged. None means unknown."""

    name: str
    folder: str
    outcome: str
    turns: int | None
    model: str | None
    task: str | None
    levels: tuple[str, ...] | None
    bytes: int | None

    def data(self) -> dict[str, Any]:
        """The summary as a JSON object."""
        return {
            "run": self.name,
            "run_dir": self.folder,
            "outcome": self.outcome,
            "turns": self.turns,
            "model": self.model,
            "task": self.task,
            "levels": None if self.levels is None else list(self.levels),
            "bytes": self.bytes,
        }


def runs_table(runs: Sequence[RunSummary]) -> str:
    """A row a run."""
    header = ("run", "outcome", "turns", "model", "size")
    rows = [(run.name, run.outcome, count(run.turns), run.model or "unknown", size(run.bytes)) for run in runs]
    return table(header, rows, ("turns", "size"))
