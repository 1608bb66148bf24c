"""The verdict on one candidate: per workload results, violations, the compiler's report and the environment."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from typing import Any

from d2k_agent.contract.compilation import CompileReport
from d2k_agent.contract.modelled import ModelledLatency
from d2k_agent.contract.profile import Profile
from d2k_agent.contract.sanitize import SanitizerReport

MOST_DRIFT = 0.02
"""A baseline that moved by more than this fraction while a candidate was measured voids the ratios (decision 9)."""
QUEUED = "gpu.queue"
"""The entry of a verdict's seconds that is no work of the evaluator's: the wait for the GPU's lease."""


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

    Four clocks: `mean_ms` is the claim (events in the candidate's process, over all timed calls), `outside_ms` the
    supervisor's wall clock around the same calls, `audit_ms` its clock around steps in lockstep, `device_ms` the sum of
    the kernels' durations by the profiler (at confirmation only). `hot_ms` is the same kernel under the policy
    graph_hot, beside a headline of graph_rotating. Of several ranks a latency is the slowest's, and `link_bytes` is
    what each of them sent to others in a call, None where nobody counted it. `sm_mhz` and `power_w` are medians while
    the calls were timed.
    A modelled latency is another type and never a Measurement.
    """

    mean_ms: float
    calls: int
    batches: int
    outside_ms: float
    policy: str
    audit_ms: float | None = None
    device_ms: float | None = None
    hot_ms: float | None = None
    sets: int = 1
    sm_mhz: float | None = None
    power_w: float | None = None
    link_bytes: tuple[float, ...] | None = None

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
    baseline: Measurement | None = None
    """The baseline's latency on this workload, same policy and session: what `speedup` is over."""
    kernels: dict[str, int] | None = None
    """Launches of the candidate's own kernels in one call, by name; None where they were not read."""

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
    """How long each step took; QUEUED is no step, but the wait for the GPU before them."""
    baseline_sha256: str | None = None
    """The baseline that speedups are over; None where there are none."""
    drift: float | None = None
    """How far the baseline's latency moved between the two ends of A B B A, as a fraction; None where it was not
    measured so. Above 0.02 the session's ratios are void: speedups are None then."""
    profile: Profile | None = None
    libraries: tuple[str, ...] = ()
    """Libraries that the candidate's processes mapped after they began to import it, as read from outside."""
    impossible: tuple[str, ...] = ()
    """Labels of workloads that were measured faster than the hardware allows, as who asked for the verdict found."""
    sanitizer: SanitizerReport | None = None
    modelled: ModelledLatency | None = None
    """What a model says where nothing was measured; nothing rests on it but the order of provisional candidates."""

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
        if self.modelled is not None and self.status is not VerdictStatus.UNTIMED:
            raise ValueError(f"a {self.status} verdict has no modelled latency")
        if self.geomean_speedup is not None and self.status is not VerdictStatus.PASSED:
            raise ValueError(f"a {self.status} verdict has no speedup")

    @property
    def eligible(self) -> bool:
        """True when the candidate may become the final submission: it passed, measured, on every workload, and no
        latency is impossible."""
        return self.status is VerdictStatus.PASSED and self.geomean_speedup is not None and not self.impossible
