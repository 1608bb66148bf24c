"""The exception tree: what an operator can act on.

    D2KError                 every error of ours; carries the exit status of the command line
    ├── UsageError      (2)  bad input: the sentence says what to do next
    ├── MachineError    (3)  a broken machine: disk full, evaluator gone, no sandbox; never scored
    │   └── EvaluatorError   the evaluator died or answered nonsense
    └── ModelError      (3)  the provider failed for good: the run stays resumable
        ├── ContextOverflow      the conversation no longer fits: never retried, ends the run with its best submission
        ├── ProviderAway         no attempt was answered: asking again later may help
        └── ScriptEnded          a scripted or recorded model has no reply left

A wrong kernel is a Verdict, a wrong tool call is a ToolResult, a spent budget is a StopReason: none is raised.
"""

from __future__ import annotations


class D2KError(Exception):
    """An error with a sentence for the operator and an exit status for the shell.

    `unknown_attempts` counts attempts of a model call that the provider may have billed although no answer came.
    """

    exit_status = 3
    unknown_attempts = 0


class UsageError(D2KError):
    """Something given is wrong (file, task, option, key); nothing was started, nothing is lost."""

    exit_status = 2


class MachineError(D2KError):
    """The machine cannot do the work: no verdict comes of it and no candidate is blamed."""


class EvaluatorError(MachineError):
    """The evaluator process ended or answered what the contract does not allow."""


class ModelError(D2KError):
    """The model could not be asked. The run can be resumed."""

    def __init__(self, message: str, unknown_attempts: int = 0) -> None:
        super().__init__(message)
        self.unknown_attempts = unknown_attempts


class ContextOverflow(ModelError):
    """The conversation is longer than the model can read; asking again cannot help."""


class CallsRefused(ModelError):
    """The model takes no tools, or no schema, in the way in which they are sent; another way may do."""


class ProviderAway(ModelError):
    """All attempts failed in ways that pass with time, or the provider asked to come back much later."""


class ScriptEnded(ModelError):
    """A scripted or recorded model was asked for a reply beyond its last one."""
