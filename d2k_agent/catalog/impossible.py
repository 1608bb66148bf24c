"""Latencies that no hardware allows: below the data sheet's floor of the best known algorithm.

Such a measurement is wrong, or what was measured does less than hidden/sol.py counts. Whoever finds that it does so
rightly corrects the counts, which explains it: what is judged from then on is free. Nothing is known without counts, or
of a GPU without a data sheet.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from d2k_agent.catalog.speed_of_light import Counts, cache_bytes, rotated_floor
from d2k_agent.contract import Verdict, VerdictStatus
from d2k_agent.contract.data_sheets import data_sheet

IMPOSSIBLE = "faster than the hardware allows"
"""All that an agent is told of it: the floor itself would tell it the best known algorithm."""


def impossible_workloads(verdict: Verdict, counts: Mapping[str, Counts]) -> tuple[str, ...]:
    """Labels of the workloads of a verdict that were measured below the floor; `counts` are by label."""
    sheet = data_sheet(verdict.environment.device_name)
    if sheet is None:
        return ()
    cache, found = cache_bytes(verdict.environment), []
    for result in verdict.workloads:
        work = counts.get(result.label)
        if work is not None and result.measurement is not None and result.registered:
            clock = result.measurement
            floor = rotated_floor(work.best, sheet, work.reference.memory_bytes, clock.sets, cache)
            if floor is not None and clock.mean_ms < floor.ms:
                found.append(result.label)
    return tuple(found)


def suspected(verdict: Verdict, counts: Mapping[str, Counts]) -> Verdict:
    """The verdict, and where a latency is impossible the labels and a note: it is not eligible then."""
    labels = impossible_workloads(verdict, counts) if verdict.status is VerdictStatus.PASSED else ()
    if not labels:
        return verdict
    note = f"{', '.join(labels)}: {IMPOSSIBLE}; the measurement is suspicious and is not ranked"
    return dataclasses.replace(verdict, impossible=labels, notes=(*verdict.notes, note))
