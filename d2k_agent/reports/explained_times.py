"""The clocks of a verdict's latencies: how far apart they are, how far they may be, and under which circumstances.

Covers a verdict in which nothing was measured: one sentence says why. Does not cover: the order of checks.
"""

from __future__ import annotations

from collections.abc import Iterable

from d2k_agent.contract import MOST_DRIFT, Measurement, Verdict, VerdictStatus
from d2k_agent.reports.explained_steps import CONFIRMATION, cut_short, deciding_step
from d2k_agent.reports.measured_text import DIGEST_CHARS, measured_of_verdict, void_text
from d2k_agent.reports.tables import UNKNOWN, milliseconds, number, table
from d2k_agent.reports.tolerances import TOLERANCES
from d2k_agent.reports.verdict_text import NO_BASELINE

TIMING = "timing."
"""How the names of checks begin that compare clocks."""
CLOCKS = {"outside": "outside_ms", "audit": "audit_ms", "device": "device_ms", "hot": "hot_ms"}
"""What stands beside the claim, by its column; a clock that no workload has is no column."""


def times_text(verdict: Verdict) -> str:
    """Tables of clocks and circumstances with the tolerances, or why nothing was measured; refused clocks with them."""
    workloads = measured_of_verdict(verdict).workloads
    if not workloads:
        told = f"nothing was measured: {_why_nothing(verdict)} (no clock, baseline, drift or speedup)"
        return f"{told}\n{_tolerances(TOLERANCES)}" if refused(verdict) else told
    clocks = {item.label: item.measurement for item in workloads}
    shown = {name: field for name, field in CLOCKS.items() if any(getattr(m, field) for m in clocks.values())}
    header = ("workload", "claim", *shown, "baseline", "speedup")
    rows = [
        (
            item.label,
            milliseconds(item.measurement.mean_ms),
            *(_beside(item.measurement, getattr(item.measurement, field)) for field in shown.values()),
            milliseconds(item.baseline.mean_ms if item.baseline else None),
            UNKNOWN if item.speedup is None else f"{number(item.speedup)}x",
        )
        for item in workloads
    ]
    rules = _tolerances(dict.fromkeys(measurement.policy for measurement in clocks.values()))
    lines = [table(header, rows, header[1:]), "", rules, "", _circumstances(clocks), "", *_over(verdict)]
    return "\n".join(lines)


def refused(verdict: Verdict) -> bool:
    """True where a claimed latency was not believed."""
    return any(violation.check.startswith(TIMING) for violation in verdict.violations)


def _tolerances(policies: Iterable[str]) -> str:
    """What the clocks have to meet under these policies; those with the same tolerances are told together."""
    told: dict[str, list[str]] = {}
    for policy in policies:
        told.setdefault(_rules(policy), []).append(policy)
    return "\n".join(f"Tolerances of {' and '.join(names)}:{rules}" for rules, names in told.items())


def _why_nothing(verdict: Verdict) -> str:
    if verdict.status is VerdictStatus.NOISY:
        return "batches, or rounds, differ by more than the noise allowed"
    if refused(verdict):
        return f"the step {deciding_step(verdict) or 'timing'} refused what it measured"
    if verdict.status.acceptable and verdict.environment.device == "cpu":
        return "candidates ran on the CPU"
    return cut_short(verdict) or "no registered workload was asked for"


def _beside(measurement: Measurement, other_ms: float | None) -> str:
    """Another clock, and how far it is from the claim."""
    if other_ms is None:
        return UNKNOWN
    return f"{milliseconds(other_ms)} {100 * (other_ms / measurement.mean_ms - 1):+.1f} %"


def _rules(policy: str) -> str:
    rules = TOLERANCES.get(policy)
    if rules is None:
        return " not known here"
    return f"""
  outside  within {_percent(rules.wall)} of the claim in the best batch (shown is the mean of all)
  audit    at most {_percent(rules.audit)}, and {rules.audit_step_ms:g} ms a step, above the claim; \
below is no fault: the GPU rests between steps
  device   at most {_percent(rules.device)}, and {rules.device_ms:g} ms, above the claim; read {CONFIRMATION}
  noise    batches, and rounds, at most {_percent(rules.noise)} apart"""


def _percent(fraction: float) -> str:
    return f"{100 * fraction:g} %"


def _circumstances(clocks: dict[str, Measurement]) -> str:
    header = ("workload", "policy", "calls", "batches", "sets", "SM clock", "power")
    rows = [
        (
            label,
            item.policy,
            f"{item.calls:,}",
            str(item.batches),
            str(item.sets),
            UNKNOWN if item.sm_mhz is None else f"{item.sm_mhz:.0f} MHz",
            UNKNOWN if item.power_w is None else f"{item.power_w:.0f} W",
        )
        for label, item in clocks.items()
    ]
    return table(header, rows, header[2:])


def _over(verdict: Verdict) -> list[str]:
    """What speedups are over, and whether they hold."""
    if verdict.baseline_sha256 is None:
        return [NO_BASELINE]
    drift = verdict.drift
    moved = (
        "whether it moved was not measured (no A B B A: the candidate could not win)"
        if drift is None
        else f"it moved by {100 * drift:.1f} % during the measurement, at most {_percent(MOST_DRIFT)} are allowed"
    )
    lines = [f"Baseline {verdict.baseline_sha256[:DIGEST_CHARS]} (sha256 of its source): {moved}."]
    if verdict.geomean_speedup is not None:
        return [*lines, f"Geometric mean speedup over it: {number(verdict.geomean_speedup)}x"]
    return [*lines, void_text(drift) or NO_BASELINE]
