"""model-latency: what a roofline makes of a candidate, without a GPU."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from d2k_agent.cli.parsing import add_evaluator_options, add_json, add_unsafe, command
from d2k_agent.config import TARGETS

if TYPE_CHECKING:
    from d2k_agent.cli.parsing import Commands

SUMMARY = "model a candidate's latency without a GPU, which measures nothing"
EXAMPLE = "d2k-agent model-latency tasks/muon solution.py --target h200"
DETAILS = """\
A few programs of every launch of run() at the registered shapes are interpreted, with large floating-point tensors that
have no contents. Bytes and products are counted, scaled to the whole, and put under the ceilings of the target. Nothing
is compiled, checked or measured; what cannot be modelled is named with the reason. `benchmarks/modelled.py` shows how
far it can be trusted."""


def add(commands: Commands) -> None:
    """Add the command."""
    parser = command(commands, "model-latency", SUMMARY, EXAMPLE, run, DETAILS)
    parser.add_argument("task", metavar="TASK", help="a slug, or the folder of a task")
    parser.add_argument("solution", metavar="FILE", help="the candidate's source, a Python file")
    parser.add_argument(
        "--workload", metavar="LABEL", action="append", default=[], help="only this workload (may be repeated)"
    )
    parser.add_argument("--target", choices=TARGETS, help="GPU to model (default: the one here, else b200)")
    add_evaluator_options(parser)
    add_unsafe(parser)
    add_json(parser, "print the modelled latency as one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Print the modelled latency; 1 where the candidate breaks a rule or any workload is not modelled."""
    from d2k_agent.app.modelled import model_file
    from d2k_agent.app.surroundings import here
    from d2k_agent.cli.console import print_json, print_text
    from d2k_agent.cli.options import settings_of
    from d2k_agent.cli.progress import open_progress
    from d2k_agent.reports.modelled_text import modelled_answer, modelled_data

    with open_progress(quiet=False, json=True) as progress:
        found = model_file(
            here(),
            settings_of(arguments),
            arguments.task,
            Path(arguments.solution),
            arguments.workload,
            progress.step,
        )
    if arguments.json:
        print_json(modelled_data(found.verdict, found.floors_ms))
    else:
        print_text(modelled_answer(found.verdict, found.floors_ms))
    modelled = found.verdict.modelled
    return 0 if modelled is not None and modelled.geomean_ms is not None else 1
