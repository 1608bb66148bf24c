"""How far measured latencies are above modelled floors, and the SOL score where it means something.

Covers: floors of a workload on a named GPU, a row and a table for people. Pure functions. For no agent's eyes: the best
known algorithm's floor would tell it the algorithm. Does not cover: counts (catalog), ceilings (contract).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from d2k_agent.catalog import IMPOSSIBLE, Counts, hardware_floor, rotated_floor
from d2k_agent.contract.ceilings import Basis, Ceilings, Floor
from d2k_agent.reports.tables import UNKNOWN, milliseconds, number, table

if TYPE_CHECKING:
    from d2k_agent.contract import Measurement
    from d2k_agent.reports.measured_text import Measured

_BELOW: dict[Basis, str] = {
    "measured": "faster than what was sustained when the ceilings were measured",
    "data sheet": "faster than at the clock of the data sheet, which the GPU may exceed",
}
"""What a time below a floor comes to that the data sheet's highest rates allow. It says nothing of the work."""
HEADER = ("workload", "claim", "floor", "bound by", "ceiling", "headroom", "reference's floor", "SOL score")


@dataclass(frozen=True)
class Floors:
    """Least times of one workload, by the model: of the best known algorithm and of the reference's own.

    None where a ceiling is unknown that they need, and where the cache keeps all that a call touches. The limits are
    the same at the data sheet's highest rates, which nothing exceeds; None also where there is no data sheet.
    """

    best: Floor | None
    reference: Floor | None
    best_limit: Floor | None = None
    reference_limit: Floor | None = None

    def why_below_best(self, ms: float) -> str:
        """What it means that a latency is below the best known algorithm's floor; empty where it is not."""
        if self.best is None or ms >= self.best.ms:
            return ""
        return IMPOSSIBLE if _is_below(ms, self.best_limit) else _BELOW[self.best.basis]


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

    @property
    def below_floor(self) -> str:
        """What a headroom below 1 means; empty for another."""
        return self.floors.why_below_best(self.measured_ms)


def floors_of(counts: Counts, ceilings: Ceilings, sets: int | None = None, l2_bytes: int | None = None) -> Floors:
    """The floors where calls rotate over `sets` (None: as many as the timing policy takes)."""
    size = counts.reference.memory_bytes
    name, cache = ceilings.device_name, l2_bytes or ceilings.l2_bytes
    works = (counts.best, counts.reference)
    return Floors(
        *(rotated_floor(work, ceilings, size, sets, l2_bytes) for work in works),
        *(hardware_floor(work, name, size, sets, cache) for work in works),
    )


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
    if baseline is None:
        score, why = None, "no baseline was measured in the session"
    elif baseline.policy != measurement.policy:
        score, why = None, "the baseline was timed under another policy"
    else:
        score, why = sol_score(measurement.mean_ms, baseline.mean_ms, floors)
    return Headroom(label, measurement.mean_ms, floors, score, why)


def sol_score(measured_ms: float, baseline_ms: float, floors: Floors) -> tuple[float | None, str]:
    """(b - f) / (t + b - 2 f) for a latency t, the baseline's b and the reference's floor f; else None and why.

    It lies between 0 and 1 and grows towards the floor only where both latencies are above it. It compares what was
    timed alike and in one session, which is the caller's to see to.
    """
    floor, why = floors.reference, _why_no_score(measured_ms, baseline_ms, floors)
    if why or floor is None:
        return None, why
    return (baseline_ms - floor.ms) / (measured_ms + baseline_ms - 2 * floor.ms), ""


def _why_no_score(measured_ms: float, baseline_ms: float, floors: Floors) -> str:
    floor, limit = floors.reference, floors.reference_limit
    if floor is None:
        return "nothing that is known bounds the reference here"
    if floor.bound == "launch":
        return "the reference is bound by one launch, which no design can do without"
    if baseline_ms <= floor.ms:
        return f"the baseline is not above the reference's floor: it {_why_below(baseline_ms, floor, limit)}"
    if measured_ms < floor.ms:
        return f"the kernel is below the reference's floor: it {_why_below(measured_ms, floor, limit)}"
    return ""


def _why_below(ms: float, floor: Floor, limit: Floor | None) -> str:
    """What a latency below the reference's floor comes to: less work only where no clock could explain it."""
    return "does less than the reference" if _is_below(ms, limit) else f"is {_BELOW[floor.basis]}"


def _is_below(ms: float, limit: Floor | None) -> bool:
    return limit is not None and ms < limit.ms


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
    lines.append(
        "Floors are a model: what the best known algorithm must do, over what the GPU can do at most. Headroom: the "
        "claim over that floor."
    )
    return "\n".join([*lines, *(f"{line}." for line in _remarks(rows))])


def _remarks(rows: Sequence[Headroom]) -> list[str]:
    """remarks() of the rows."""
    return remarks([(item.label, item.below_floor, item.no_score) for item in rows])


def remarks(found: Sequence[tuple[str, str, str]], whose: str = "") -> list[str]:
    """What is to be said of headroom below 1 and of missing SOL scores, a sentence without its full stop a reason.

    `found` has labels, each with what a headroom below 1 means there and why there is no score; empty: nothing.
    `whose` stands before the labels.
    """
    reasons: dict[tuple[str, str], list[str]] = {}
    for label, below, no_score in found:
        for what, why in (("Headroom below 1 on", below), ("No SOL score for", no_score)):
            if why:
                reasons.setdefault((what, why), []).append(label)
    return [f"{what} {whose}{', '.join(labels)}: {why}" for (what, why), labels in reasons.items()]


def headroom_data(rows: Sequence[Headroom]) -> list[dict[str, object]]:
    """The rows for scripts: milliseconds, `headroom` (latency over the best floor) and what one below 1 means,
    the score or why there is none."""
    return [
        {
            "workload": item.label,
            "measured_ms": item.measured_ms,
            "floor_ms": None if item.floors.best is None else item.floors.best.ms,
            "reference_floor_ms": None if item.floors.reference is None else item.floors.reference.ms,
            "headroom": item.times,
            "below_floor": item.below_floor or None,
            "sol_score": item.sol_score,
            "no_score": item.no_score or None,
        }
        for item in rows
    ]


def headroom_notes(rows: Sequence[Headroom]) -> list[str]:
    """What a report says of them, a sentence each, without its full stop; none where no floor is known."""
    known = [item for item in rows if item.times is not None]
    if not known:
        return []
    bases = " and ".join(sorted({item.floors.best.basis for item in known if item.floors.best is not None}))
    told = ", ".join(f"{number(item.times)} on {item.label}" for item in known)
    notes = [f"its candidate's headroom over the modelled floor ({bases} ceilings): {told}"]
    scores = ", ".join(f"{number(item.sol_score)} on {item.label}" for item in rows if item.sol_score is not None)
    notes += [f"its candidate's SOL score: {scores}"] if scores else []
    return [*notes, *(f"{line[0].lower()}{line[1:]}" for line in _remarks(rows))]
