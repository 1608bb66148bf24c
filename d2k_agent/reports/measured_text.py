"""What was measured, as a table with a row a workload and the circumstances below it.

Covers a verdict of an evaluator and one read back from a run's records. Does not cover what was found (verdict_text).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from d2k_agent.contract import MOST_DRIFT, Measurement, Verdict
from d2k_agent.reports.tables import NOT_READ, UNKNOWN, milliseconds, number, table

if TYPE_CHECKING:
    from d2k_agent.records import Times, VerdictRecord

HEADER = ("workload", "claim", "outside", "audit", "device", "baseline", "speedup", "worst rel_norm")
DIGEST_CHARS = 12


@dataclass(frozen=True)
class MeasuredWorkload:
    """One registered workload that has a latency."""

    label: str
    measurement: Measurement
    baseline: Measurement | None
    speedup: float | None
    rel_norm: float | None


@dataclass(frozen=True)
class Measured:
    """All that was measured of one candidate, on which device and over which baseline."""

    workloads: tuple[MeasuredWorkload, ...]
    geomean_speedup: float | None
    baseline_sha256: str | None
    drift: float | None
    device_name: str


def measured_of_verdict(verdict: Verdict) -> Measured:
    """What an evaluator's verdict says was measured."""
    rows = [
        MeasuredWorkload(item.label, item.measurement, item.baseline, item.speedup, item.rel_norm)
        for item in verdict.workloads
        if item.registered and item.measurement is not None
    ]
    return Measured(
        tuple(rows), verdict.geomean_speedup, verdict.baseline_sha256, verdict.drift, verdict.environment.device_name
    )


def measured_of_records(verdict: VerdictRecord, times: Times) -> Measured:
    """The same, read back from the two records of a verdict."""
    found = {item.label: item for item in verdict.workloads if item.registered}
    rows = [
        MeasuredWorkload(item.label, item.measurement, item.baseline, item.speedup, found[item.label].rel_norm)
        for item in times.workloads
        if item.label in found and item.measurement is not None
    ]
    return Measured(
        tuple(rows), times.geomean_speedup, times.baseline_sha256, times.drift, verdict.environment.device_name
    )


def measured_text(measured: Measured) -> str:
    """The table and what belongs to it.

    A line is there or not by what was measured, never by how large a number is, so that a replay differs in numbers.
    """
    rows = [_row(item) for item in measured.workloads]
    lines = [table(HEADER, rows, HEADER[1:]), *_hot(measured.workloads)]
    lines.append(f"Geometric mean speedup over the baseline: {_times(measured.geomean_speedup)}")
    if measured.baseline_sha256 is not None:
        lines.append(f"Baseline: {measured.baseline_sha256[:DIGEST_CHARS]}{_moved(measured.drift)}")
    lines.append(f"Timed by {policies(measured.workloads)} on {measured.device_name}{_clocks(measured.workloads)}")
    return "\n".join(lines)


def void_text(drift: float | None) -> str | None:
    """Why a measured candidate has no speedup, where the baseline moved too far; else None."""
    if drift is None or drift <= MOST_DRIFT:
        return None
    return (
        f"The baseline moved by {100 * drift:.1f} % during the measurement, more than {100 * MOST_DRIFT:.0f} %, so "
        "there are no speedups and this submission is not ranked. The candidate is not at fault; hand it in again."
    )


def _row(item: MeasuredWorkload) -> tuple[str, ...]:
    clocks = item.measurement
    return (
        item.label,
        *(milliseconds(value) for value in (clocks.mean_ms, clocks.outside_ms, clocks.audit_ms)),
        # The profiler is asked at a confirmation only.
        NOT_READ if clocks.device_ms is None else milliseconds(clocks.device_ms),
        milliseconds(item.baseline.mean_ms if item.baseline else None),
        _times(item.speedup),
        number(item.rel_norm),
    )


def _times(speedup: float | None) -> str:
    return UNKNOWN if speedup is None else f"{number(speedup)}x"


def _hot(workloads: Sequence[MeasuredWorkload]) -> list[str]:
    hot = [f"{w.label} {milliseconds(w.measurement.hot_ms)}" for w in workloads if w.measurement.hot_ms is not None]
    return [f"With one set of inputs (graph_hot): {', '.join(hot)}"] if hot else []


def _moved(drift: float | None) -> str:
    return "" if drift is None else f"; it moved by {100 * drift:.1f} % during the measurement"


def policies(workloads: Sequence[MeasuredWorkload]) -> str:
    """The ids of the policies that they were timed under."""
    return ", ".join(dict.fromkeys(item.measurement.policy for item in workloads)) or UNKNOWN


def _clocks(workloads: Sequence[MeasuredWorkload]) -> str:
    return _span("SM clock", [item.measurement.sm_mhz for item in workloads], "MHz") + _span(
        "power", [item.measurement.power_w for item in workloads], "W"
    )


def _span(name: str, values: Sequence[float | None], unit: str) -> str:
    known = [value for value in values if value is not None]
    return f"; {name} {min(known):.0f} {unit} to {max(known):.0f} {unit}" if known else ""
