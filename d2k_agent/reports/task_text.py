"""What tasks and their workloads are, with what their own sources took where that was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from d2k_agent.catalog import source_latencies
from d2k_agent.reports.tables import UNKNOWN, table

if TYPE_CHECKING:
    from d2k_agent.catalog import Task

HEADER = ("task", "workload", "modelled floor ms", "baseline ms", "expert ms", "expert/floor", "speedup", "measured on")


def tasks_text(tasks: Sequence[Task]) -> str:
    """A line for each task, then a row for each workload.

    `speedup` is the expert's over the baseline; the floor is a model, the rest measured.
    """
    names = table(("task", "category", "title"), [(task.slug, task.category, task.title) for task in tasks])
    return f"{names}\n\n{_latencies(tasks)}"


def _latencies(tasks: Sequence[Task]) -> str:
    rows = []
    for task in tasks:
        latencies = source_latencies(task.folder)
        for workload in task.workloads:
            known = latencies.get(workload.label)
            cells: tuple[str, ...] = (UNKNOWN,) * 5 + ("nothing yet",)
            if known is not None:
                numbers = (known.floor_ms, known.baseline_ms, known.expert_ms, known.over_floor, known.speedup)
                cells = (*[UNKNOWN if value is None else f"{value:.4g}" for value in numbers], known.device)
            rows.append((task.slug, workload.label, *cells))
    return table(HEADER, rows, HEADER[2:7])
