"""cost: what runs cost, from their recorded tokens."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from d2k_agent.cli.parsing import add_json, add_price_file, command
from d2k_agent.cli.solve import RUN_HELP

if TYPE_CHECKING:
    from d2k_agent.cli.parsing import Commands

SUMMARY = "price runs anew from the tokens that they recorded"
EXAMPLE = "d2k-agent cost RUN --prices FILE"
DETAILS = """\
Tokens and dollars of each run by bucket, at the prices that the run recorded; with --prices also at those. A run that
recorded no prices is priced by the lists that ship. What nobody counted or prices is unknown, and makes a total a lower
bound. Below the table: how much was read from the provider's cache of what was expected, why a request read less, and
what shortening old results saved and cost. Nothing is written, and nobody is asked."""


def add(commands: Commands) -> None:
    """Add the command."""
    parser = command(commands, "cost", SUMMARY, EXAMPLE, run, DETAILS)
    parser.add_argument("run_names", metavar="RUN", nargs="+", help=RUN_HELP)
    add_price_file(parser, "prices to compare with the recorded ones", "--prices")
    add_json(parser, "print one object: runs (each with buckets, recorded and new cost, its prices) and their sum")


def run(arguments: argparse.Namespace) -> int:
    """Print what the runs cost."""
    from d2k_agent.app.costing import costs_of_runs
    from d2k_agent.app.surroundings import here
    from d2k_agent.cli.console import print_json, print_text
    from d2k_agent.cli.options import settings_of
    from d2k_agent.reports.cost_text import cost_data, cost_text

    def notice(line: str) -> None:
        print_text(line, sys.stderr)

    found = costs_of_runs(here(), arguments.run_names, settings_of(arguments), notice)
    if arguments.json:
        print_json(cost_data(found))
    else:
        print_text(cost_text(found))
    return 0
