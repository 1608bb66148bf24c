"""inspect: every launch of a candidate as compilers see it for Blackwell and Hopper, with warnings that matter."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from d2k_agent.cli.parsing import add_evaluator_options, add_json, add_unsafe, command
from d2k_agent.config import TARGETS

if TYPE_CHECKING:
    from d2k_agent.cli.parsing import Commands

SUMMARY = "report every launch of a candidate for Blackwell and Hopper GPUs, with warnings; no GPU needed"
EXAMPLE = "d2k-agent inspect tasks/muon solution.py --target b200"
DETAILS = """\
The candidate is compiled as by `compile`, confined and within the same time limit, for sm_100 and sm_90 or for the
targets that are named. Nothing of it runs on a GPU: occupancy is an estimate. A report is kept in the user's cache
folder under a digest of source, task, target and versions, and an answer from there says so."""


def add(commands: Commands) -> None:
    """Add the command."""
    parser = command(commands, "inspect", SUMMARY, EXAMPLE, run, DETAILS)
    parser.add_argument("task", metavar="TASK", help="a slug, or the folder of a task")
    parser.add_argument("solution", metavar="FILE", help="the candidate's source, a Python file")
    parser.add_argument(
        "--target",
        dest="targets",
        choices=TARGETS,
        action="append",
        default=[],
        help="only for this GPU (may be repeated; default: b200 and h200)",
    )
    parser.add_argument(
        "--workload", metavar="LABEL", action="append", default=[], help="only this workload (may be repeated)"
    )
    parser.add_argument("--fresh", action="store_true", help="compile anew, whatever the cache holds")
    add_evaluator_options(parser)
    add_unsafe(parser)
    add_json(parser, "print one JSON object: reports, each target, kept_since (null: made just now) and verdict")


def run(arguments: argparse.Namespace) -> int:
    """Print the reports; 1 where the candidate fails to compile for one of the targets, or launches no kernel there."""
    from d2k_agent.app.inspecting import inspect_file
    from d2k_agent.app.surroundings import here
    from d2k_agent.cli.console import print_json, print_text
    from d2k_agent.cli.options import settings_of
    from d2k_agent.cli.progress import open_progress
    from d2k_agent.reports.inspect_text import inspect_data, inspect_text, launched_kernels

    # The answer is all that stdout holds; what is being done is shown beside it, where somebody looks.
    with open_progress(quiet=False, json=True) as progress:
        reports = inspect_file(
            here(),
            settings_of(arguments),
            arguments.task,
            Path(arguments.solution),
            arguments.targets,
            arguments.workload,
            progress.step,
            arguments.fresh,
        )
    if arguments.json:
        print_json(inspect_data(reports))
    else:
        print_text(inspect_text(reports))
    return 0 if all(item.verdict.status.acceptable and launched_kernels(item) for item in reports) else 1
