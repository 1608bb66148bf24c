"""A model's request for a tool, and the answer that goes back to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

ToolStatus = Literal["ok", "error", "timed_out"]


@dataclass(frozen=True)
class ToolCall:
    """One requested call. `arguments` may be the raw JSON text that the model wrote; "" means no arguments."""

    id: str
    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)


@dataclass(frozen=True)
class ToolResult:
    """The answer to one call. `text` is what the model reads: bounded, portable, encodable as UTF-8.

    `data` is for the program that drives the model (a verdict, an exit status), never for the model.
    """

    call_id: str
    name: str
    status: ToolStatus
    text: str
    seconds: float
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class HostAnswer:
    """What a host tool answers; the toolbox bounds and cleans its text like any other."""

    status: ToolStatus
    text: str
    data: dict[str, Any] = field(default_factory=dict)


HostTool = Callable[[Mapping[str, Any]], HostAnswer]
"""A tool that runs in the controller, called with validated arguments. What it raises is a broken machine."""
