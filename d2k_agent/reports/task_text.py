"""What tasks and their workloads are, with modelled floors, and what their own sources took where that was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from d2k_agent.catalog import SourceLatencies, counts_of, measured_digest, source_latencies
from d2k_agent.contract.gpu import device_name
from d2k_agent.reports.headroom import Floors, floors_of, remarks, sol_score
from d2k_agent.reports.tables import UNKNOWN, number, readable_time, table

if TYPE_CHECKING:
    from d2k_agent.catalog import Task
    from d2k_agent.contract.ceilings import Ceilings

HEADER = (
    *("task", "workload", "floor", "bound by", "ceiling", "reference's floor"),
    *("baseline", "expert", "headroom", "SOL score", "speedup", "GPU"),
)
MODELLED = (
    "Floors are modelled: what the best known algorithm, or the reference's, must do, over a ceiling of the GPU.\n"
    "Headroom, SOL score and speedup are the expert's: its latency over the floor, its place between baseline and the\n"
    "reference's floor, and the baseline's latency over its own."
)
NO_LAUNCH = "A floor below what one launch takes is reached by nobody; of {} that is not known."
EARLIER = "Latencies were measured under an earlier form of the task: {}."
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
    launch_known: bool

    @property
    def headroom(self) -> float | None:
        """The expert's latency over the best known algorithm's floor."""
        if self.latencies is None or self.floors.best is None:
            return None
        return self.latencies.expert_ms / self.floors.best.ms

    @property
    def below_floor(self) -> str:
        """What it means that the expert is below that floor; empty where it is not."""
        return "" if self.latencies is None else self.floors.why_below_best(self.latencies.expert_ms)

    @property
    def sol_score(self) -> tuple[float | None, str]:
        """The expert's, or why there is none."""
        if self.latencies is None:
            return None, "nothing was measured"
        return sol_score(self.latencies.expert_ms, self.latencies.baseline_ms, self.floors)


def workload_floors(task: Task, ceilings: KnownOf) -> list[WorkloadFloors]:
    """For each registered workload, on the GPU where it was measured, else on WHERE_NOT_MEASURED.

    Raises UsageError where hidden/sol.py or hidden/baselines.json is wrong.
    """
    latencies, counts = source_latencies(task.folder), counts_of(task)
    found = []
    for workload in task.workloads:
        known = latencies.get(workload.label)
        gpu = WHERE_NOT_MEASURED if known is None else known.device
        limits, floors = ceilings(gpu), Floors(None, None)
        launch_known = limits is not None and limits.launch_us is not None
        if workload.label in counts and limits is not None:
            floors = floors_of(counts[workload.label], limits)
        found.append(WorkloadFloors(workload.label, gpu, floors, known, launch_known))
    return found


def floors_data(rows: Sequence[WorkloadFloors]) -> dict[str, Mapping[str, object]]:
    """By workload: milliseconds of both floors, what bounds them and where the ceiling comes from, and the expert's
    `headroom`, `sol_score` and `speedup`; null if unknown. `no_score` says why there is none, and `below_floor` what a
    headroom below 1 means."""
    return {
        item.label: {
            "device_name": item.device_name,
            "headroom": item.headroom,
            "below_floor": item.below_floor or None,
            "sol_score": item.sol_score[0],
            "no_score": item.sol_score[1] or None,
            "speedup": None if item.latencies is None else item.latencies.speedup,
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
    """A row for each workload, what its columns are, and why there is no SOL score where latencies are known."""
    found = [(task.slug, item) for task in tasks for item in workload_floors(task, ceilings)]
    lines = [table(HEADER, [(slug, *_cells(item)) for slug, item in found], (HEADER[2], *HEADER[5:11])), MODELLED]
    for task in tasks:
        known = [item for slug, item in found if slug == task.slug and item.latencies is not None]
        told = remarks([(item.label, item.below_floor, item.sol_score[1]) for item in known], f"{task.slug}, ")
        lines += [f"{sentence}." for sentence in told]
    earlier = [task.slug for task in tasks if measured_digest(task.folder) not in (None, task.bundle().digest)]
    lines += [EARLIER.format(", ".join(earlier))] * bool(earlier)
    unknown = {item.device_name for _, item in found if item.floors.best is not None and not item.launch_known}
    return "\n".join([*lines, *(NO_LAUNCH.format(name) for name in sorted(unknown))])


def _cells(item: WorkloadFloors) -> Iterator[str]:
    best, reference, known = item.floors.best, item.floors.reference, item.latencies
    yield item.label
    yield from (UNKNOWN, "-", "-") if best is None else (readable_time(best.ms), best.bound, best.basis)
    yield readable_time(None if reference is None else reference.ms)
    if known is None:
        yield from (UNKNOWN,) * 5
        yield f"{item.device_name} (not measured)"
        return
    score, _ = item.sol_score
    yield from (readable_time(known.baseline_ms), readable_time(known.expert_ms), number(item.headroom, 4))
    yield from ("-" if score is None else number(score), number(known.speedup, 4), known.device)
