"""The headroom table: latencies of sources that were judged, beside the modelled floors of their workloads.

Ceilings are those that were measured on this machine (`d2k-agent ceilings --measure`), else as they ship, else of the
data sheet; the column `ceiling` says which. Of no agent's concern: the floors are those of the best known algorithm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from d2k_agent.app.ceilings import KnownCeilings
from d2k_agent.app.surroundings import here
from d2k_agent.catalog import Task, counts_of
from d2k_agent.contract import Measurement
from d2k_agent.contract.wire import from_data
from d2k_agent.reports.headroom import HEADER, Headroom, headroom, headroom_row, remarks
from d2k_agent.reports.tables import table

HEADROOM_HEADER = ("task", "source", *HEADER)
Row = tuple[str, str, Headroom]
"""Task and source, and one measured workload."""


def headroom_rows(task: Task, source: str, verdict: Mapping[str, Any]) -> list[Row]:
    """A row for each measured workload of a verdict as data; `source` says what was judged.

    Empty where the task has no counts, nothing was measured, or nothing is known of the GPU.
    """
    environment = verdict["environment"]
    details = environment.get("details", {})
    ceilings, counts = KnownCeilings(here()).best(environment["device_name"]), counts_of(task, details)
    if ceilings is None:
        return []
    rows = list[Row]()
    for result in verdict["workloads"]:
        if result["measurement"] is not None and result["label"] in counts:
            measured, baseline = (
                None if result[name] is None else from_data(Measurement, result[name])
                for name in ("measurement", "baseline")
            )
            assert measured is not None
            label, cache = result["label"], details.get("l2_bytes")
            rows.append((task.slug, source, headroom(counts[label], label, measured, baseline, ceilings, cache)))
    return rows


def headroom_table(rows: Sequence[Row]) -> str:
    """Rows of headroom_rows() as a table, and what a headroom below 1 or a missing score means."""
    cells = [(slug, source, *headroom_row(item)) for slug, source, item in rows]
    lines = [table(HEADROOM_HEADER, cells, (HEADER[1], HEADER[2], *HEADER[5:]))]
    for slug, source in dict.fromkeys((slug, source) for slug, source, _ in rows):
        own = [item for *key, item in rows if key == [slug, source]]
        told = remarks([(item.label, item.below_floor, item.no_score) for item in own], f"{slug} {source}, ")
        lines += [f"{sentence}." for sentence in told]
    return "\n".join(lines)
