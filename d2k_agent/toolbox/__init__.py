"""From a model's tool call to a result that it can read: folders as tools, arguments checked, text bounded.

Covers: reading tools/, validating calls, running a tool in the sandbox or on the host, portable text. Does not cover:
what the host tools do (app wires them), and who calls (agent). Free of LangGraph, so that other servers can use it.
"""

from __future__ import annotations

from d2k_agent.toolbox.calls import HostAnswer, HostTool, ToolCall, ToolResult
from d2k_agent.toolbox.inside.workspace_files import PathError, read_file
from d2k_agent.toolbox.portable import PortableText
from d2k_agent.toolbox.spec import ToolSpec, load_tools
from d2k_agent.toolbox.toolbox import Toolbox

__all__ = [
    "HostAnswer",
    "HostTool",
    "PathError",
    "PortableText",
    "ToolCall",
    "ToolResult",
    "ToolSpec",
    "Toolbox",
    "load_tools",
    "read_file",
]
