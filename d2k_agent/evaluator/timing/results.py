"""What timing came to, as the results of a verdict."""

from __future__ import annotations

from d2k_agent.contract import VerdictStatus, WorkloadResult
from d2k_agent.evaluator.checks.series import worst_norm, worst_of
from d2k_agent.evaluator.timing.session import Outcome


def results_of(outcome: Outcome) -> list[WorkloadResult]:
    """The passed result of every workload of an outcome that did not fail."""
    results = []
    for label, measurement in outcome.measured.items():
        checks = worst_of(outcome.checks[label])
        results.append(
            WorkloadResult(
                label,
                VerdictStatus.PASSED,
                checks,
                mean_ms=measurement.mean_ms,
                speedup=outcome.speedup(label),
                rel_norm=worst_norm(checks),
                measurement=measurement,
                baseline=outcome.baseline.get(label),
                kernels=outcome.kernels.get(label),
            )
        )
    return results


def failure_of(outcome: Outcome) -> WorkloadResult:
    """The result of the workload that failed: wrong, or too noisy to be measured."""
    assert outcome.failed is not None
    if outcome.noisy is not None:
        return WorkloadResult(outcome.failed, VerdictStatus.NOISY, message=outcome.notes[-1])
    checks = worst_of(outcome.checks[outcome.failed])
    told = next(check.message or check.gate for check in checks if not check.passed)
    return WorkloadResult(outcome.failed, VerdictStatus.INCORRECT, checks, message=f"{outcome.failed}: {told}")
