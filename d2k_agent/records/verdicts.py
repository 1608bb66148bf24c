"""A verdict cut in two: what was found, and what was measured.

Covers: the record of a verdict without any time in it, the record of its times, the cut, and joining the two. The
cut is what keeps a judge blind: whoever builds its input from VerdictRecord cannot leak a runtime. Does not cover: who
is eligible.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from d2k_agent.contract import (
    Check,
    CompileReport,
    Environment,
    Measurement,
    Profile,
    Verdict,
    VerdictStatus,
    Violation,
    WorkloadResult,
)
from d2k_agent.contract.wire import finite, from_data, to_data

TIMING = "timing"
"""The phase that times, as `seconds` of a verdict names it; its parts are timing.*."""
TIMING_CHECKS = f"{TIMING}."
"""How the names of checks begin that compare clocks: what they say holds times."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class WorkloadVerdict(_Record):
    """What was found on one workload. Nothing here speaks of time."""

    label: str
    status: VerdictStatus
    checks: tuple[Check, ...] = ()
    registered: bool = True
    rel_norm: float | None = None
    message: str = ""
    kernels: dict[str, int] | None = None


class VerdictRecord(_Record):
    """What was found on one candidate. `compile_report` is the contract's CompileReport as data, less its duration.

    Where anything was timed, the words (messages, notes, what a violation says) stand in Times, and are empty here.
    """

    status: VerdictStatus
    candidate_sha256: str
    message: str
    environment: Environment
    violations: tuple[Violation, ...] = ()
    workloads: tuple[WorkloadVerdict, ...] = ()
    compile_report: dict[str, Any] | None = None
    peak_memory_bytes: int | None = None
    seed_commitment: str = ""
    notes: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _possible(self) -> VerdictRecord:
        if (self.status is VerdictStatus.RULE_VIOLATION) != bool(self.violations):
            raise ValueError(f"a {self.status} verdict with {len(self.violations)} violations cannot be")
        registered = [item.status for item in self.workloads if item.registered]
        if self.status is VerdictStatus.PASSED and set(registered) != {VerdictStatus.PASSED}:
            raise ValueError("a passed verdict passed on every registered workload")
        return self


class WorkloadTime(_Record):
    """What was measured on one workload. `speedup` is the baseline's latency over the candidate's, None if unknown."""

    label: str
    measurement: Measurement | None = None
    speedup: float | None = None
    message: str = ""
    baseline: Measurement | None = None


class Times(_Record):
    """All that was measured in one evaluation, and what was said about it.

    `drift` is how far the baseline moved between the ends of A B B A, as a fraction. `violations` are those of a
    verdict that was reached by timing, with their words. `impossible` names workloads that were measured faster than
    the hardware allows.
    """

    workloads: tuple[WorkloadTime, ...]
    geomean_speedup: float | None = None
    message: str = ""
    notes: tuple[str, ...] = ()
    baseline_sha256: str | None = None
    drift: float | None = None
    profile: Profile | None = None
    violations: tuple[Violation, ...] = ()
    impossible: tuple[str, ...] = ()

    @property
    def measured(self) -> frozenset[str]:
        """Labels of the workloads that have a latency."""
        return frozenset(item.label for item in self.workloads if item.measurement is not None)


class Cut(_Record):
    """The parts of one verdict. `times` is None when nothing was measured; `seconds` are durations of the checking."""

    verdict: VerdictRecord
    times: Times | None
    seconds: dict[str, float]


def cut(verdict: Verdict) -> Cut:
    """Cut `verdict` into what was found and what was measured; numbers that are not finite become None.

    The words of a verdict for which anything was timed may tell it: they go with the times.
    """
    timed = _timed(verdict)
    report = None if verdict.compile_report is None else finite(to_data(verdict.compile_report))
    seconds = dict(verdict.seconds)
    if report is not None:
        seconds.setdefault("compile_report", report.pop("seconds"))
    found = VerdictRecord(
        status=verdict.status,
        candidate_sha256=verdict.candidate_sha256,
        message="" if timed else verdict.message,
        environment=verdict.environment,
        violations=tuple(
            Violation(item.check, "" if timed else item.message, item.line) for item in verdict.violations
        ),
        workloads=tuple(
            WorkloadVerdict(
                label=result.label,
                status=result.status,
                checks=tuple(_finite_check(check) for check in result.checks),
                registered=result.registered,
                rel_norm=finite(result.rel_norm),
                message="" if timed else result.message,
                kernels=result.kernels,
            )
            for result in verdict.workloads
        ),
        compile_report=report,
        peak_memory_bytes=verdict.peak_memory_bytes,
        seed_commitment=verdict.seed_commitment,
        notes=() if timed else verdict.notes,
        libraries=verdict.libraries,
    )
    return Cut(verdict=found, times=_times(verdict) if timed else None, seconds=finite(seconds))


def joined(found: VerdictRecord, times: Times | None) -> Verdict:
    """The verdict that was cut into these, without the durations of its evaluation.

    Raises ValueError for records that no verdict of this version is cut into.
    """
    timed = {} if times is None else {item.label: item for item in times.workloads}
    report = found.compile_report
    return Verdict(
        found.status,
        found.candidate_sha256,
        found.message if times is None else times.message,
        found.environment,
        found.violations if times is None else times.violations,
        tuple(_joined_result(item, timed.get(item.label)) for item in found.workloads),
        None if report is None else from_data(CompileReport, {**report, "seconds": 0.0}),
        found.peak_memory_bytes,
        None if times is None else times.geomean_speedup,
        found.seed_commitment,
        found.notes if times is None else times.notes,
        baseline_sha256=None if times is None else times.baseline_sha256,
        drift=None if times is None else times.drift,
        profile=None if times is None else times.profile,
        libraries=found.libraries,
        impossible=() if times is None else times.impossible,
    )


def _joined_result(found: WorkloadVerdict, time: WorkloadTime | None) -> WorkloadResult:
    measurement = None if time is None else time.measurement
    return WorkloadResult(
        found.label,
        found.status,
        found.checks,
        found.registered,
        None if measurement is None else measurement.mean_ms,
        None if time is None else time.speedup,
        found.rel_norm,
        measurement,
        found.message if time is None else time.message,
        None if time is None else time.baseline,
        found.kernels,
    )


def _timed(verdict: Verdict) -> bool:
    """True where timing began, even if no latency came of it: a fault found meanwhile leaves words about times."""
    return (
        verdict.status is VerdictStatus.NOISY
        or any(name == TIMING or name.startswith(TIMING_CHECKS) for name in verdict.seconds)
        or any(result.measurement or result.baseline for result in verdict.workloads)
        or any(item is not None for item in (verdict.baseline_sha256, verdict.drift, verdict.profile))
        or any(violation.check.startswith(TIMING_CHECKS) for violation in verdict.violations)
    )


def _times(verdict: Verdict) -> Times:
    return Times(
        workloads=tuple(
            WorkloadTime(
                label=result.label,
                measurement=_finite_measurement(result.measurement),
                speedup=finite(result.speedup),
                message=result.message,
                baseline=_finite_measurement(result.baseline),
            )
            for result in verdict.workloads
            if _speaks_of_time(result)
        ),
        geomean_speedup=finite(verdict.geomean_speedup),
        message=verdict.message,
        notes=verdict.notes,
        baseline_sha256=verdict.baseline_sha256,
        drift=finite(verdict.drift),
        profile=verdict.profile,
        violations=verdict.violations,
        impossible=verdict.impossible,
    )


def _speaks_of_time(result: WorkloadResult) -> bool:
    return bool(result.measurement or result.baseline or result.message)


def _finite_measurement(measurement: Measurement | None) -> Measurement | None:
    return None if measurement is None else from_data(Measurement, finite(to_data(measurement)))


def _finite_check(check: Check) -> Check:
    return Check(check.output, check.gate, finite(check.value), finite(check.limit), check.passed, check.message)
