"""How far measured latencies are above modelled floors, and the SOL score where it means something.

Covers: floors of a workload on a named GPU, a row and a table for people. Pure functions. For no agent's eyes: the best
known algorithm's floor would tell it the algorithm. Does not cover: counts (catalog), ceilings (contract).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from d2k_agent.catalog import Counts, rotated_floor
from d2k_agent.contract.ceilings import Ceilings, Floor
from d2k_agent.reports.tables import UNKNOWN, milliseconds, number, table

if TYPE_CHECKING:
    from d2k_agent.contract import Measurement
    from d2k_agent.reports.measured_text import Measured

HEADER = ("workload", "claim", "floor", "bound by", "ceiling", "times the floor", "reference's floor", "SOL score")


@dataclass(frozen=True)
class Floors:
    """Least times of one workload, by the model: of the best known algorithm and of the reference's own.

    None where a ceiling is unknown that they need, and where the cache keeps all that a call touches.
    """

    best: Floor | None
    reference: Floor | None


@dataclass(frozen=True)
class Headroom:
    """One measured workload. `sol_score` is None where its conditions do not hold, and `no_score` says which one."""

    label: str
    measured_ms: float
    floors: Floors
    sol_score: float | None
    no_score: str = ""

    @property
    def times(self) -> float | None:
        """The latency over the best known algorithm's floor."""
        return None if self.floors.best is None else self.measured_ms / self.floors.best.ms


def floors_of(counts: Counts, ceilings: Ceilings, sets: int | None = None, l2_bytes: int | None = None) -> Floors:
    """The floors where calls rotate over `sets` (None: as many as the timing policy takes)."""
    size = counts.reference.memory_bytes
    best, reference = (rotated_floor(work, ceilings, size, sets, l2_bytes) for work in (counts.best, counts.reference))
    return Floors(best, reference)


def headroom(
    counts: Counts,
    label: str,
    measurement: Measurement,
    baseline: Measurement | None,
    ceilings: Ceilings,
    l2_bytes: int | None = None,
) -> Headroom:
    """The headroom of one measured workload; `baseline` is that of the same session, None where none was measured."""
    floors = floors_of(counts, ceilings, measurement.sets, l2_bytes)
    why = _why_no_score(measurement, baseline, floors.reference)
    score = None
    if not why and baseline is not None and floors.reference is not None:
        floor_ms = floors.reference.ms
        score = (baseline.mean_ms - floor_ms) / (measurement.mean_ms + baseline.mean_ms - 2 * floor_ms)
    return Headroom(label, measurement.mean_ms, floors, score, why)


def _why_no_score(measurement: Measurement, baseline: Measurement | None, floor: Floor | None) -> str:
    """Which condition of the SOL score does not hold; empty where all do.

    (b - f) / (t + b - 2 f), for a latency t, the baseline's b and the reference's floor f, lies between 0 and 1 and
    grows towards the floor only where both latencies are above it, and compares only what was timed alike.
    """
    if baseline is None:
        return "no baseline was measured in the session"
    if baseline.policy != measurement.policy:
        return "the baseline was timed under another policy"
    if floor is None:
        return "nothing that is known bounds the reference here"
    if floor.bound == "launch":
        return "the reference is bound by one launch, which no design can do without"
    if baseline.mean_ms <= floor.ms:
        return "the baseline is not above the reference's floor: it does less than the reference"
    if measurement.mean_ms < floor.ms:
        return "the kernel is below the reference's floor: it does less than the reference"
    return ""


def headroom_of(
    measured: Measured, counts: Mapping[str, Counts], ceilings: Ceilings | None, l2_bytes: int | None = None
) -> list[Headroom]:
    """The headroom of every measured workload that has counts; empty where nothing is known of the GPU."""
    if ceilings is None:
        return []
    return [
        headroom(counts[item.label], item.label, item.measurement, item.baseline, ceilings, l2_bytes)
        for item in measured.workloads
        if item.label in counts
    ]


def headroom_row(item: Headroom) -> tuple[str, ...]:
    """The cells of HEADER."""
    best, reference = item.floors.best, item.floors.reference
    return (
        item.label,
        milliseconds(item.measured_ms),
        UNKNOWN if best is None else milliseconds(best.ms),
        "-" if best is None else best.bound,
        "-" if best is None else best.basis,
        number(item.times),
        UNKNOWN if reference is None else milliseconds(reference.ms),
        "-" if item.sol_score is None else number(item.sol_score),
    )


def headroom_text(rows: Sequence[Headroom]) -> str:
    """The table, what it is, and where there is no SOL score why not."""
    right = (HEADER[1], HEADER[2], *HEADER[5:])
    lines = [table(HEADER, [headroom_row(item) for item in rows], right)]
    lines.append("Floors are a model: what the best known algorithm must do, over what the GPU can do at most.")
    lines += [f"No SOL score for {item.label}: {item.no_score}." for item in rows if item.no_score]
    return "\n".join(lines)


def headroom_line(rows: Sequence[Headroom]) -> str | None:
    """One line for a report, None where no floor is known."""
    known = [item for item in rows if item.times is not None]
    if not known:
        return None
    bases = " and ".join(sorted({item.floors.best.basis for item in known if item.floors.best is not None}))
    told = ", ".join(f"{number(item.times)} on {item.label}" for item in known)
    return f"{told} times the modelled floor ({bases} ceilings)"
