"""A run that nobody drives any more is ended where it stands, as a requested stop ends one that is driven."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from d2k_agent.agent.running import Outcome, run_agent
from d2k_agent.contract import Verdict
from d2k_agent.errors import MachineError
from d2k_agent.models import Message, ModelReply
from d2k_agent.records import Event, RunFolder
from d2k_agent.toolbox import ToolCall, ToolResult


def end_run(run: RunFolder) -> Outcome:
    """Ask for a stop and obey it: the run is over then, with the selection of what it holds.

    No model is asked, no tool is called and nothing is measured, so it needs nothing of what the run began with. A run
    that is over is left as it is. Raises UsageError when another process drives the run, MachineError as run_agent().
    """
    run.request_stop()
    nobody = _Nobody()
    return run_agent(run, run.read_record().config, nobody, nobody, _unwatched, nobody.measure)


def _unwatched(event: Event) -> None:
    pass


class _Nobody:
    """In the place of model, tools and evaluator. A stop comes before each of them is asked."""

    name = "nobody"

    def complete(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> ModelReply:
        self._asked()

    def schemas(self) -> list[dict[str, Any]]:
        self._asked()

    def file_before(self, call: ToolCall) -> str | None:
        self._asked()

    def call(self, call: ToolCall, file_before: str | None = None) -> ToolResult:
        self._asked()

    def measure(self, source: str) -> Verdict:
        self._asked()

    def _asked(self) -> NoReturn:
        raise MachineError("the request to stop is gone from the run's folder, so the run is not over; stop it again")
