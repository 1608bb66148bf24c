"""doctor: what this machine can do, and what to do about what is missing."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from d2k_agent.cli.parsing import add_json, command

if TYPE_CHECKING:
    from d2k_agent.cli.parsing import Commands

SUMMARY = "say what this machine can do, and what to do about what is missing"


def add(commands: Commands) -> None:
    """Add the command."""
    parser = command(commands, "doctor", SUMMARY, "d2k-agent doctor", run)
    add_json(parser, "print one object: can_solve and findings (each name, state, value, advice)")


def run(arguments: argparse.Namespace) -> int:
    """Print the findings; 0 when `solve` can run here, else 3."""
    from d2k_agent.app.doctor import examine
    from d2k_agent.app.surroundings import here
    from d2k_agent.cli.console import print_json, print_text
    from d2k_agent.reports.health import can_solve, health_data, health_text

    findings = examine(here())
    if arguments.json:
        print_json(health_data(findings))
    else:
        print_text(health_text(findings))
    return 0 if can_solve(findings) else 3
