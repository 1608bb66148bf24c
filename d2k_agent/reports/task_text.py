"""What tasks and their workloads are, with modelled floors, and what their own sources took where that was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from d2k_agent.catalog import SourceLatencies, source_latencies, speed_of_light
from d2k_agent.contract.gpu import device_name
from d2k_agent.reports.headroom import Floors, floors_of
from d2k_agent.reports.tables import UNKNOWN, table

if TYPE_CHECKING:
    from d2k_agent.catalog import Task
    from d2k_agent.contract.ceilings import Ceilings

HEADER = (
    *("task", "workload", "floor ms", "bound by", "ceiling", "reference's floor ms"),
    *("baseline ms", "expert ms", "expert/floor", "speedup", "GPU"),
)
MODELLED = "Floors are modelled: what the best known algorithm, or the reference's, must do, over a ceiling of the GPU."
WHERE_NOT_MEASURED = device_name("b200")
"""The GPU of the floors of a workload that was measured on none: the default target."""

KnownOf = Callable[[str], "Ceilings | None"]
"""Ceilings by a GPU's name."""


@dataclass(frozen=True)
class WorkloadFloors:
    """Floors of a workload on `device_name`, and the latencies of the task's own sources there, None without any."""

    label: str
    device_name: str
    floors: Floors
    latencies: SourceLatencies | None


def workload_floors(task: Task, ceilings: KnownOf) -> list[WorkloadFloors]:
    """For each registered workload, on the GPU where it was measured, else on WHERE_NOT_MEASURED.

    Raises UsageError where hidden/sol.py or hidden/baselines.json is wrong.
    """
    latencies, sol = source_latencies(task.folder), speed_of_light(task)
    found = []
    for workload in task.workloads:
        known = latencies.get(workload.label)
        gpu = WHERE_NOT_MEASURED if known is None else known.device
        limits, floors = ceilings(gpu), Floors(None, None)
        if sol is not None and limits is not None:
            floors = floors_of(sol.counts(workload.params), limits)
        found.append(WorkloadFloors(workload.label, gpu, floors, known))
    return found


def floors_data(rows: Sequence[WorkloadFloors]) -> dict[str, Mapping[str, object]]:
    """By workload: milliseconds of both floors, what bounds them and where the ceiling comes from; null if unknown."""
    return {
        item.label: {
            "device_name": item.device_name,
            **{
                name: None if floor is None else {"ms": floor.ms, "bound": floor.bound, "ceiling": floor.basis}
                for name, floor in (("best", item.floors.best), ("reference", item.floors.reference))
            },
        }
        for item in rows
    }


def tasks_text(tasks: Sequence[Task], ceilings: KnownOf) -> str:
    """A line for each task, then a row for each workload."""
    names = table(("task", "category", "title"), [(task.slug, task.category, task.title) for task in tasks])
    return f"{names}\n\n{floors_text(tasks, ceilings)}"


def floors_text(tasks: Sequence[Task], ceilings: KnownOf) -> str:
    """A row for each workload: `speedup` is the expert's over the baseline; floors are a model, the rest measured."""
    rows = [(task.slug, *_cells(item)) for task in tasks for item in workload_floors(task, ceilings)]
    return f"{table(HEADER, rows, (HEADER[2], *HEADER[5:10]))}\n{MODELLED}"


def _cells(item: WorkloadFloors) -> Iterator[str]:
    best, reference, known = item.floors.best, item.floors.reference, item.latencies
    yield item.label
    yield from (UNKNOWN, "-", "-") if best is None else (_number(best.ms), best.bound, best.basis)
    yield _number(None if reference is None else reference.ms)
    if known is None:
        yield from (UNKNOWN,) * 4
        yield f"{item.device_name} (not measured)"
        return
    yield from (_number(known.baseline_ms), _number(known.expert_ms))
    yield _number(None if best is None else known.expert_ms / best.ms)
    yield from (_number(known.speedup), known.device)


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.4g}"
