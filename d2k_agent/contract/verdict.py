"""The verdict on one candidate: per workload results, violations, the compiler's report and the environment."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from typing import Any

from d2k_agent.contract.compilation import CompileReport


class VerdictStatus(enum.StrEnum):
    """How a candidate ended. There is no "evaluator error": a broken machine is an exception."""

    PASSED = "passed"
    INCORRECT = "incorrect"
    RULE_VIOLATION = "rule_violation"
    COMPILE_ERROR = "compile_error"
    RUNTIME_ERROR = "runtime_error"
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    ENDED_EARLY = "ended_early"
    UNTIMED = "untimed"
    """Correct and rule-abiding, but nothing was measured: the candidate ran on a CPU."""
    NOISY = "noisy"

    @property
    def acceptable(self) -> bool:
        """True where the candidate itself has nothing against it (passed, or untimed for want of a GPU)."""
        return self in (VerdictStatus.PASSED, VerdictStatus.UNTIMED)


@dataclass(frozen=True)
class Check:
    """One gate applied to one output: `value` against `limit`. `value` is None when no number describes the failure."""

    output: str
    gate: str
    value: float | None
    limit: float | None
    passed: bool
    message: str = ""


@dataclass(frozen=True)
class Violation:
    """A rule that the candidate broke: the check's name, and what its author can do about it."""

    check: str
    message: str
    line: int | None = None


@dataclass(frozen=True)
class Measurement:
    """A measured latency of one workload, in milliseconds a call, under a named timing policy.

    A modelled latency is another type and never a Measurement.
    """

    mean_ms: float
    calls: int
    batches: int
    outside_ms: float
    policy: str

    def __post_init__(self) -> None:
        if not (math.isfinite(self.mean_ms) and self.mean_ms > 0):
            raise ValueError(f"a measured latency is a positive number of milliseconds, not {self.mean_ms}")


@dataclass(frozen=True)
class WorkloadResult:
    """One workload. `registered` separates the benchmark's own workloads from smoke and hidden ones."""

    label: str
    status: VerdictStatus
    checks: tuple[Check, ...] = ()
    registered: bool = True
    mean_ms: float | None = None
    speedup: float | None = None
    rel_norm: float | None = None
    measurement: Measurement | None = None
    message: str = ""

    def __post_init__(self) -> None:
        latency = (self.measurement, self.mean_ms, self.speedup)
        if self.status is VerdictStatus.PASSED and any(value is None for value in latency[:2]):
            raise ValueError(f"workload {self.label}: passed without a measurement")
        if self.status is not VerdictStatus.PASSED and any(value is not None for value in latency):
            raise ValueError(f"workload {self.label}: {self.status} cannot hold a latency")
        if self.status.acceptable and not all(check.passed for check in self.checks):
            raise ValueError(f"workload {self.label}: {self.status} with a failed check")


@dataclass(frozen=True)
class Environment:
    """Where the verdict was made: what a reader needs to compare two of them.

    `isolation` names the measures that confined the candidate, "none" where it was not confined, and is None where no
    candidate code was executed.
    """

    machine: str
    device: str
    device_name: str
    target: str
    isolation: str | None
    python: str
    torch: str
    triton: str
    evaluator_digest: str
    task_digest: str
    driver: str | None = None
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Verdict:
    """The answer to one job. `message` is one sentence for the author of the kernel."""

    status: VerdictStatus
    candidate_sha256: str
    message: str
    environment: Environment
    violations: tuple[Violation, ...] = ()
    workloads: tuple[WorkloadResult, ...] = ()
    compile_report: CompileReport | None = None
    peak_memory_bytes: int | None = None
    geomean_speedup: float | None = None
    seed_commitment: str = ""
    """sha256 of the job's seed: it can be opened later, and was fixed before the candidate ran."""
    notes: tuple[str, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.status is VerdictStatus.RULE_VIOLATION and not self.violations:
            raise ValueError("a rule violation needs at least one violation")
        if self.status is not VerdictStatus.RULE_VIOLATION and self.violations:
            raise ValueError(f"a verdict with violations is a rule_violation, not {self.status}")
        registered = [result for result in self.workloads if result.registered]
        if self.status is VerdictStatus.PASSED and not (
            registered and all(result.status is VerdictStatus.PASSED for result in registered)
        ):
            raise ValueError("a passed verdict has a measurement for every registered workload")
        if self.geomean_speedup is not None and self.status is not VerdictStatus.PASSED:
            raise ValueError(f"a {self.status} verdict has no speedup")

    @property
    def eligible(self) -> bool:
        """True when the candidate may become the final submission: it passed, measured, on every workload."""
        return self.status is VerdictStatus.PASSED and self.geomean_speedup is not None
