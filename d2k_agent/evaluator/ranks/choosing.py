"""One rank or several: what the judge uses in either case, and what it leaves out of the second."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from d2k_agent.contract import TaskBundle
from d2k_agent.contract.wording import either
from d2k_agent.evaluator.checks.series import SeriesRunner
from d2k_agent.evaluator.devices import Device
from d2k_agent.evaluator.faults import TaskFault
from d2k_agent.evaluator.process import CandidateProcess
from d2k_agent.evaluator.ranks.checking import RankedSeries
from d2k_agent.evaluator.ranks.device import RankedDevice
from d2k_agent.evaluator.ranks.group import RankGroup, Start
from d2k_agent.evaluator.ranks.task import MOST_RANKS, RankedTask
from d2k_agent.evaluator.ranks.timer import RankedTimer
from d2k_agent.evaluator.task import LoadedTask
from d2k_agent.evaluator.timing.measure import WorkloadTimer

Step = TypeVar("Step", bound=Callable[..., Any])

_FOR_ONE_RANK = {
    "profile": "no profile",
    "sanitize": "nothing was sanitized",
    "device clock": "no clock of the profiler",
    "model": "no modelled latency",
}
"""Steps that call run() in a process by itself, and what is missing without them."""


def load_task(bundle: TaskBundle, ranks: int | None) -> LoadedTask:
    """The task for `ranks` ranks (None: the first number of its config.json; one where that has none).

    Raises TaskFault where the task is not for so many, besides what LoadedTask raises.
    """
    task = LoadedTask(bundle)
    worlds = task.config.get("ranks")
    if worlds is None:
        if ranks not in (None, 1):
            raise TaskFault(f"task {task.slug} is for one rank, not for {ranks}")
        return task
    if not isinstance(worlds, list) or not worlds or not all(map(_is_world, worlds)):
        raise TaskFault(f"task {task.slug}: config.json: ranks must list numbers of ranks from 2 to {MOST_RANKS}")
    if ranks is not None and ranks not in worlds:
        raise TaskFault(f"task {task.slug} is for {either(worlds)} ranks, not for {ranks}")
    return RankedTask(bundle, task, worlds[0] if ranks is None else ranks)


def _is_world(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 2 <= value <= MOST_RANKS


def device_for(task: LoadedTask, device: Device) -> Device:
    """The device as it is for the task's ranks."""
    return device if task.ranks == 1 else RankedDevice(device, task.ranks)


def processes(start: Start, device: Device, gathers: bool) -> CandidateProcess:
    """One process, or as many as the device has ranks, each with a comm that gathers where the source `gathers`."""
    return RankGroup(start, device, gathers) if isinstance(device, RankedDevice) else start(0)


def series_runner(task: LoadedTask, device: Device, *rest: Any) -> SeriesRunner:
    """What runs series on the device; the other arguments as SeriesRunner has them."""
    return RankedSeries(task, device, *rest) if isinstance(device, RankedDevice) else SeriesRunner(task, device, *rest)


def timer_of(task: LoadedTask, device: Device, *rest: Any) -> WorkloadTimer:
    """What times a workload on the device; the other arguments as WorkloadTimer has them, `trusted` the last."""
    if isinstance(task, RankedTask) and isinstance(device, RankedDevice):
        return RankedTimer(task, device, *rest)
    return WorkloadTimer(task, device, *rest)


def possible(task: LoadedTask, steps: Sequence[tuple[str, Step]], notes: list[str]) -> Iterator[tuple[str, Step]]:
    """The steps of a job that there are for the task's ranks; of the others it is noted what is missing."""
    for name, step in steps:
        if task.ranks == 1 or name not in _FOR_ONE_RANK:
            yield name, step
        else:
            notes.append(f"{_FOR_ONE_RANK[name]}: not of a task for several ranks")
