"""Which tools a run offers: those of its protocol, and those that it asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from d2k_agent.errors import UsageError

if TYPE_CHECKING:
    from d2k_agent.config import RunConfig
    from d2k_agent.toolbox import ToolSpec

PAPER_TOOLS = ("read", "write", "bash", "submit")


def offered_tools(config: RunConfig) -> dict[str, ToolSpec]:
    """The tools of a run by name. Raises UsageError for one that is asked for and that nobody can add."""
    from d2k_agent.catalog import tools_dir
    from d2k_agent.toolbox import load_tools

    specs = load_tools(tools_dir())
    if config.protocol == "paper":
        return {name: specs[name] for name in sorted(PAPER_TOOLS)}
    more = sorted(name for name, spec in specs.items() if spec.on_request)
    for name in config.more_tools:
        if name not in more:
            raise UsageError(f"--tool {name}: there is no such tool to add; there is {', '.join(more) or 'none'}")
    return {name: spec for name, spec in specs.items() if not spec.on_request or name in config.more_tools}
