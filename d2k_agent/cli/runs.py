"""runs list | rm: the run folders of this project."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from d2k_agent.cli.parsing import add_json, command, group

if TYPE_CHECKING:
    from d2k_agent.cli.parsing import Commands


def add(commands: Commands) -> None:
    """Add the group."""
    members = group(commands, "runs", "list and remove runs", "d2k-agent runs list")
    parser = command(members, "list", "list the runs", "d2k-agent runs list --json", run_list)
    add_json(parser, "print a list of objects, one a run")
    parser = command(members, "rm", "remove runs and all that they recorded", "d2k-agent runs rm RUN", run_remove)
    parser.add_argument("run_names", metavar="RUN", nargs="+", help="a run folder, or the name of one in traces/runs")


def run_list(arguments: argparse.Namespace) -> int:
    """Print the runs, oldest first."""
    from d2k_agent.app.inventory import list_runs
    from d2k_agent.app.surroundings import here
    from d2k_agent.cli.console import print_json, print_text
    from d2k_agent.cli.options import settings_of
    from d2k_agent.reports.runs import runs_table

    runs = list_runs(here(), settings_of(arguments))
    if arguments.json:
        print_json([run.data() for run in runs])
    elif runs:
        print_text(runs_table(runs))
    else:
        print_text("no runs yet; `d2k-agent solve tasks/muon --levels L1,L2` makes one")
    return 0


def run_remove(arguments: argparse.Namespace) -> int:
    """Remove each run named; a running one is refused."""
    from d2k_agent.app.inventory import remove
    from d2k_agent.app.surroundings import here
    from d2k_agent.cli.console import print_text
    from d2k_agent.cli.options import settings_of

    for name in arguments.run_names:
        print_text(f"removed {remove(here(), name, settings_of(arguments))}")
    return 0
