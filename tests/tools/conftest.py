from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from d2k_agent.sandbox import Sandbox
from d2k_agent.toolbox import HostAnswer, Toolbox, ToolCall, ToolResult, load_tools
from tests.sandbox.boxes import box, wall

__all__ = ["box", "call", "wall"]

TOOLS = Path(__file__).parents[2] / "tools"
Call = Callable[..., ToolResult]


@pytest.fixture
def call(box: Sandbox) -> Call:
    """call(name, **arguments): the shipped tools over a workspace, in each isolation class."""
    specs = load_tools(TOOLS)
    host = {name: lambda arguments: HostAnswer("ok", repr(dict(arguments))) for name in specs}
    toolbox = Toolbox(specs, box, box.workspace, host, {sys.prefix: "<python>"})

    def make(name: str, **arguments: Any) -> ToolResult:
        return toolbox.call(ToolCall("call-1", name, arguments))

    return make
