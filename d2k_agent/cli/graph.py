"""graph: the agent's state machine as a drawing."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from d2k_agent.cli.parsing import command

if TYPE_CHECKING:
    from d2k_agent.cli.parsing import Commands


def add(commands: Commands) -> None:
    """Add the command."""
    command(commands, "graph", "print the agent's state machine as Mermaid text", "d2k-agent graph", run)


def run(arguments: argparse.Namespace) -> int:
    """Print the drawing."""
    from d2k_agent.agent import mermaid
    from d2k_agent.cli.console import print_text

    print_text(mermaid())
    return 0
