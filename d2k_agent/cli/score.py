"""score: a run's winner judged and measured once more, here or on the machine that it is meant for."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from d2k_agent.cli.parsing import MEANT_FOR, add_evaluation_options, add_json, add_task_of_a_run, command
from d2k_agent.cli.solve import RUN_HELP

if TYPE_CHECKING:
    from d2k_agent.cli.parsing import Commands

SUMMARY = "measure a run's winner once more, here or through a command prefix"
EXAMPLE = 'd2k-agent score RUN --evaluator "ssh host"'
DETAILS = """\
The winner (the selection, else the provisional candidate) is judged and measured over its baseline as at the end of a
run. The score says which machine that was, calls nothing but the target the target, and is written into the run's
folder."""


def add(commands: Commands) -> None:
    """Add the command."""
    parser = command(commands, "score", SUMMARY, EXAMPLE, run, DETAILS)
    parser.add_argument("run_name", metavar="RUN", help=RUN_HELP)
    add_task_of_a_run(parser)
    add_evaluation_options(parser, MEANT_FOR)
    add_json(parser, "print the score as one JSON object: status, on_target, measured_on, statement, verdict ...")


def run(arguments: argparse.Namespace) -> int:
    """Print the score; 0 for passed and untimed, else 1."""
    from d2k_agent.app.scoring import score_run
    from d2k_agent.app.surroundings import here
    from d2k_agent.cli.console import print_json, print_text
    from d2k_agent.cli.options import settings_of
    from d2k_agent.cli.progress import open_progress
    from d2k_agent.reports.paths import nearby

    around = here()
    with open_progress(quiet=False, json=True) as progress:
        score = score_run(around, arguments.run_name, settings_of(arguments), progress.step, arguments.task)
    if arguments.json:
        print_json(score.data)
    else:
        print_text(f"{score.text}\n\nWritten to {nearby(score.path, around.folder)}")
    return 0 if score.verdict.status.acceptable else 1
