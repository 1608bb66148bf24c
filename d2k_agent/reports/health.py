"""What a machine can do, as findings, in text and in JSON data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

State = Literal["ok", "limited", "missing"]


@dataclass(frozen=True)
class Finding:
    """One thing looked for. `limited`: `solve` runs, with less; `missing`: it cannot run. `advice` says what to do."""

    name: str
    state: State
    value: str
    advice: str = ""

    def __post_init__(self) -> None:
        if self.state == "missing" and not self.advice:
            raise ValueError(f"{self.name} is missing: say what to do about it")


def can_solve(findings: Sequence[Finding]) -> bool:
    """True when nothing that `solve` needs is missing."""
    return all(finding.state != "missing" for finding in findings)


def health_text(findings: Sequence[Finding]) -> str:
    """A line a finding with its advice below, then one sentence that sums up."""
    width = max((len(finding.name) for finding in findings), default=0)
    lines = []
    for finding in findings:
        lines.append(f"{finding.state:<7}  {finding.name:<{width}}  {finding.value}")
        if finding.advice:
            lines.append(f"{'':<7}  {'':<{width}}  -> {finding.advice}")
    missing = [finding.name for finding in findings if finding.state == "missing"]
    lines.append("")
    if missing:
        lines.append(f"solve cannot run here: {', '.join(missing)} missing; the arrows say what to do.")
    else:
        lines.append("solve can run here.")
    return "\n".join(lines)


def health_data(findings: Sequence[Finding]) -> dict[str, Any]:
    """The findings as one JSON object."""
    return {
        "can_solve": can_solve(findings),
        "findings": [
            {"name": item.name, "state": item.state, "value": item.value, "advice": item.advice or None}
            for item in findings
        ],
    }
