"""What the nodes work with: injected when a run is driven, never saved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from d2k_agent.agent.budgets import Budgets
from d2k_agent.agent.compaction import Compactor
from d2k_agent.agent.journal import Journal
from d2k_agent.agent.ranges import TurnRanges
from d2k_agent.agent.window import Window
from d2k_agent.contract import Verdict
from d2k_agent.models import Model
from d2k_agent.records import Point, PolicyStopped, RunFolder
from d2k_agent.toolbox import ToolCall, ToolResult


class Tools(Protocol):
    """The part of a toolbox that the loop uses."""

    def schemas(self) -> list[dict[str, Any]]:
        """Schemas in OpenAI's form, in a stable order."""

    def file_before(self, call: ToolCall) -> str | None:
        """What the file that `call` would change is like now; None for calls that can be made twice."""

    def call(self, call: ToolCall, file_before: str | None = None) -> ToolResult:
        """The result of one call; what the model did wrong is an error result. Raises MachineError alone.

        A change that was made since the file was like `file_before` is not made again.
        """


Confirm = Callable[[str], Verdict]
"""The verdict on a source text that is measured again, under a fresh seed. Raises MachineError alone."""

Stopping = Callable[[Sequence[Point]], PolicyStopped | None]
"""Says, of a run's points so far, whether it ends after the last of them: what is then recorded, else None."""


@dataclass
class Parts:
    """One driven run. `budgets` are its limits, `window` is what a request may hold, `node` the node at work, `turns`
    what a profiler is shown.

    `brief`: answers are worded briefly, and nothing that the conversation holds is told again. `compactor`: what
    shortens old answers, None where they stay whole. `stopping` may end the run early, None where nothing does.
    """

    run: RunFolder
    journal: Journal
    model: Model
    toolbox: Tools
    budgets: Budgets
    workloads: tuple[str, ...]
    confirm: Confirm | None
    window: Window
    brief: bool = False
    compactor: Compactor | None = None
    stopping: Stopping | None = None
    node: str = "prepare"
    turns: TurnRanges = field(default_factory=TurnRanges)


def data_without(data: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """`data` less the entries that are recorded elsewhere."""
    return {key: value for key, value in data.items() if key not in names}
