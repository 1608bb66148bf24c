"""How a candidate's process can fail, as one exception that the judge turns into a verdict."""

from __future__ import annotations

from d2k_agent.contract import VerdictStatus, Violation


class CandidateFault(Exception):
    """The candidate failed: `status` is its verdict, the text a sentence for its author.

    `violations` are the rules it broke while running, and make the verdict a rule violation. `brief` is the message
    without words of the candidate's own, which could carry what it saw.
    """

    def __init__(
        self, status: VerdictStatus, message: str, violations: tuple[Violation, ...] = (), brief: str = ""
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.violations = violations
        self.brief = brief or message


class TaskFault(Exception):
    """The task's own files are broken (a reference that raises, a broken config): nobody's candidate is blamed."""
