"""report: runs as curves of score against what they took, as a table and as a page."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from d2k_agent.cli.parsing import add_json, command

if TYPE_CHECKING:
    from d2k_agent.cli.parsing import Commands

SUMMARY = "show the score of runs after every turn against what it took, as a table and as a page"
EXAMPLE = "d2k-agent report RUN --budget 100"
DETAILS = """\
Score, tokens by bucket, dollars and GPU time at each turn that moved the score, under each --budget, and at the end.
The page has the same as pictures, with the cost split and the trace, opens offline and runs no script. Runs that were
judged in different circumstances are kept apart. A run that cannot be read is named, and the others are reported."""
COULD_NOT_READ = 2


def add(commands: Commands) -> None:
    """Add the command."""
    parser = command(commands, "report", SUMMARY, EXAMPLE, run, DETAILS)
    parser.add_argument(
        "run_names",
        metavar="RUN",
        nargs="+",
        help="a run folder, the name of one in traces/runs (its last part is enough), or a folder of runs",
    )
    parser.add_argument(
        "--budget",
        dest="budgets",
        metavar="N",
        type=int,
        action="append",
        default=[],
        help="also say what a budget of N turns would have given; may be given again",
    )
    parser.add_argument(
        "--out", metavar="FILE", help="the page (default: RUN-report.html here; report.html for several runs)"
    )
    add_json(parser, "print one object (runs, problems, page); the page is then written only where --out names it")


def run(arguments: argparse.Namespace) -> int:
    """Print the table and write the page; 2 where a run could not be read."""
    from d2k_agent.app.reporting import page_path, report_runs, written_page
    from d2k_agent.app.surroundings import here
    from d2k_agent.cli.console import print_json, print_text
    from d2k_agent.cli.options import settings_of
    from d2k_agent.cli.progress import open_progress
    from d2k_agent.errors import UsageError
    from d2k_agent.reports.curve_data import curve_data
    from d2k_agent.reports.curve_text import curve_text
    from d2k_agent.reports.paths import nearby

    around, budgets = here(), sorted(set(arguments.budgets))
    if budgets and budgets[0] < 1:
        raise UsageError(f"--budget must be at least 1 turn, not {budgets[0]}")
    wanted = not arguments.json or arguments.out is not None
    path = page_path(around, arguments.run_names, arguments.out) if wanted else None
    with open_progress(quiet=False, json=True) as progress:
        found = report_runs(around, arguments.run_names, settings_of(arguments), progress.step, traces=wanted)
    for problem in found.problems.values():
        print_text(f"d2k-agent: {problem}", sys.stderr)
    if not found.runs:
        return COULD_NOT_READ
    if path is not None:
        written_page(path, found, budgets)
    if arguments.json:
        print_json(curve_data(found.runs, budgets, found.problems, None if path is None else str(path)))
    else:
        print_text(curve_text(found.runs, budgets))
        if path is not None:
            print_text(f"\nPage: {nearby(path, around.folder)}")
    return COULD_NOT_READ if found.problems else 0
