"""All that a task prescribes of compiled kernels: their names, their precision, their order of memory between ranks."""

from __future__ import annotations

from d2k_agent.contract import CompileReport, Violation
from d2k_agent.evaluator.checks.ordering import ordering_violations
from d2k_agent.evaluator.checks.precision import precision_violations
from d2k_agent.evaluator.evidence import borrowed_names
from d2k_agent.evaluator.task import LoadedTask


def prescribed_violations(report: CompileReport, task: LoadedTask) -> tuple[Violation, ...]:
    """What the kernels of `report` do against it; empty for nothing."""
    return (
        *borrowed_names(report),
        *precision_violations(report, task.hidden.get("precision", {})),
        *ordering_violations(report, task.ranks),
    )
