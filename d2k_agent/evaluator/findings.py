"""What is known of one job so far, and the verdict that it amounts to."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from d2k_agent.contract import (
    CompileReport,
    Environment,
    EvaluatorJob,
    Profile,
    SanitizerReport,
    Verdict,
    VerdictStatus,
    Violation,
    WorkloadResult,
    source_sha256,
)
from d2k_agent.contract.modelled import ModelledLatency
from d2k_agent.evaluator.evidence import as_compiled, own_kernels
from d2k_agent.evaluator.timing.results import failure_of, results_of
from d2k_agent.evaluator.timing.session import Outcome

_NOT_COMPARED = (
    "what run() launches was compared with the kernels of solution.py, not with what was compiled: that was for "
    "another GPU, one rank of several, other shapes, or more kernels than are told"
)


@dataclass
class Findings:
    """Filled by the steps of a job in their order.

    `registered` are the benchmark's own workloads until they are put before the other `results`; `seconds` by step;
    `isolation` is how the candidate was confined, None as long as none of its code was executed.
    """

    results: list[WorkloadResult] = field(default_factory=list)
    registered: list[WorkloadResult] = field(default_factory=list)
    report: CompileReport | None = None
    outcome: Outcome | None = None
    profile: Profile | None = None
    sanitizer: SanitizerReport | None = None
    notes: list[str] = field(default_factory=list)
    peak_memory_bytes: int | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    isolation: str | None = None
    modelled: ModelledLatency | None = None
    libraries: set[str] = field(default_factory=set)
    launched: dict[str, frozenset[str]] = field(default_factory=dict)
    """By workload, the kernels that the compiler saw launched; empty where it saw them for another GPU, or not all."""

    def own(self, source: str) -> frozenset[str]:
        """The names of the candidate's kernels."""
        return own_kernels(source, self.report, self.launched)

    def compare_launches(self) -> None:
        """Raises CandidateFault where a registered workload launched what the compiler did not see."""
        for result in self.registered:
            as_compiled(result.kernels, self.launched, result.label)

    def peak(self, peak_bytes: int | None) -> None:
        """Note bytes that were alive at once; None where nobody counted."""
        if peak_bytes is not None:
            self.peak_memory_bytes = max(self.peak_memory_bytes or 0, peak_bytes)

    def take(self, outcome: Outcome) -> WorkloadResult | None:
        """Take over what timing came to; the result that failed, or None.

        Raises CandidateFault as compare_launches() does.
        """
        self.peak(outcome.peak_memory_bytes)
        self.notes += outcome.notes
        self.seconds |= {f"timing.{name}": round(value, 3) for name, value in outcome.seconds.items()}
        if outcome.failed is not None:
            failed = failure_of(outcome)
            self.results.append(failed)
            return failed
        self.outcome = outcome
        self.registered = results_of(outcome)
        self.compare_launches()
        if self.report is not None and not self.launched:
            self.notes.append(_NOT_COMPARED)
        return None

    def verdict(
        self,
        job: EvaluatorJob,
        environment: Environment,
        status: VerdictStatus,
        message: str,
        violations: tuple[Violation, ...],
    ) -> Verdict:
        """All of it as the verdict on the job. Speedups, baseline and drift belong to one that passed."""
        outcome = self.outcome if status is VerdictStatus.PASSED else None
        return Verdict(
            status=status,
            candidate_sha256=job.candidate_sha256,
            message=message,
            environment=environment,
            violations=violations,
            workloads=tuple(self.results),
            compile_report=self.report,
            peak_memory_bytes=self.peak_memory_bytes,
            geomean_speedup=outcome.geomean_speedup() if outcome else None,
            seed_commitment=hashlib.sha256(job.seed.encode()).hexdigest(),
            notes=tuple(self.notes),
            seconds=dict(self.seconds),
            baseline_sha256=source_sha256(job.baseline) if outcome and job.baseline else None,
            drift=outcome.drift if outcome else None,
            profile=self.profile,
            libraries=tuple(sorted(self.libraries)),
            modelled=self.modelled if status is VerdictStatus.UNTIMED else None,
            sanitizer=self.sanitizer,
        )
