"""export: a run's winner as a folder that scores it wherever it is opened."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from d2k_agent.cli.parsing import MEANT_FOR, add_evaluation_options, add_json, add_task_of_a_run, command
from d2k_agent.cli.solve import RUN_HELP

if TYPE_CHECKING:
    from d2k_agent.cli.parsing import Commands

SUMMARY = "write a run's winner as a folder that scores it where it is opened"
EXAMPLE = "d2k-agent export RUN --out bundle"
DETAILS = """\
The folder holds the winner (the selection, else the provisional candidate), its task with the hidden checks, its
baseline, the compiler's report for --target, and the evaluator. On a machine with Python 3.11,
torch and triton `python3 score.py` in it measures the winner and says which machine that was."""


def add(commands: Commands) -> None:
    """Add the command."""
    parser = command(commands, "export", SUMMARY, EXAMPLE, run, DETAILS)
    parser.add_argument("run_name", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--out", metavar="FOLDER", help="a new or empty folder (default: RUN-bundle)")
    add_task_of_a_run(parser)
    add_evaluation_options(parser, MEANT_FOR)
    add_json(parser, "print one object: out, scored, files, bundle_sha256")


def run(arguments: argparse.Namespace) -> int:
    """Write the folder and say what to do with it."""
    import dataclasses

    from d2k_agent.app.exporting import export_run
    from d2k_agent.app.surroundings import here
    from d2k_agent.cli.console import print_json, print_text
    from d2k_agent.cli.options import settings_of
    from d2k_agent.cli.progress import open_progress
    from d2k_agent.reports.compile_text import compile_text
    from d2k_agent.reports.paths import nearby

    around = here()
    with open_progress(quiet=False, json=True) as progress:
        exported = export_run(
            around, arguments.run_name, arguments.out, settings_of(arguments), progress.step, arguments.task
        )
    scored = exported.subject.scored
    if arguments.json:
        print_json(
            {
                "out": str(exported.folder),
                "scored": dataclasses.asdict(scored),
                "files": exported.files,
                "bundle_sha256": exported.sha256,
            }
        )
    else:
        folder = nearby(exported.folder, around.folder)
        print_text(f"{scored.title}\n{compile_text(exported.report)}\n")
        print_text(f"{len(exported.files)} files in {folder}. Copy it to the machine and run there: python3 score.py")
        print_text(f"Its score is of this bundle where it says bundle_sha256 {exported.sha256}")
    return 0
