"""Latencies that no hardware allows: below the data sheet's floor of the best known algorithm.

Such a measurement is wrong, or what was measured does less than hidden/sol.py counts. Whoever finds that it does so
rightly corrects the counts, which explains it: what is judged from then on is free. Nothing is known without counts, or
of a GPU without a data sheet.

What is best known is no bound: an algorithm with fewer operations may be found, and fast ways to multiply matrices save
an eighth at each level. That such a kernel is no accident either is left to the room between the data sheet's peak and
what power allows, a quarter of it on an H200. Everything else here leans towards not suspecting: products count at the
highest clock, what the cache may keep saves its reads and its writes, and memory is not asked about where nobody says
how large the cache is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from d2k_agent.catalog.speed_of_light import Counts, cache_bytes, counts_as_run, rotated_floor
from d2k_agent.contract import Verdict, VerdictStatus
from d2k_agent.contract.ceilings import Floor, Work, floor_of
from d2k_agent.contract.data_sheets import at_highest_clock, data_sheet

IMPOSSIBLE = "faster than the hardware allows"
"""All that an agent is told of it: the floor itself would tell it the best known algorithm."""


def impossible_workloads(verdict: Verdict, counts: Mapping[str, Counts]) -> tuple[str, ...]:
    """Labels of the workloads of a verdict that were measured below the floor; `counts` are by label."""
    name, cache, found = verdict.environment.device_name, cache_bytes(verdict.environment), []
    for result in verdict.workloads:
        work = counts.get(result.label)
        if work is not None and result.measurement is not None and result.registered:
            work = counts_as_run(work, verdict.environment.details)
            floor = hardware_floor(work.best, name, work.reference.memory_bytes, result.measurement.sets, cache)
            if floor is not None and result.measurement.mean_ms < floor.ms:
                found.append(result.label)
    return tuple(found)


def hardware_floor(
    work: Work, name: str, footprint_bytes: float, sets: int | None, l2_bytes: int | None
) -> Floor | None:
    """The least time of `work` that the data sheet of the GPU of that name allows; None where nothing is known.

    `footprint_bytes` and `sets` as rotated_floor() has them; memory is not asked about where `l2_bytes` is None.
    """
    sheet = data_sheet(name)
    if sheet is None:
        return None
    limits = at_highest_clock(sheet)
    if l2_bytes is None:
        return floor_of(dataclasses.replace(work, memory_bytes=0.0), limits)
    return rotated_floor(work, limits, footprint_bytes, sets, l2_bytes, in_place=True)


def suspected(verdict: Verdict, counts: Mapping[str, Counts]) -> Verdict:
    """The verdict, and where a latency is impossible the labels and a note: it is not eligible then."""
    labels = impossible_workloads(verdict, counts) if verdict.status is VerdictStatus.PASSED else ()
    if not labels:
        return verdict
    note = f"{', '.join(labels)}: {IMPOSSIBLE}; the measurement is suspicious and is not ranked"
    return dataclasses.replace(verdict, impossible=labels, notes=(*verdict.notes, note))
