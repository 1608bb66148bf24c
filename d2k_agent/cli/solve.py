"""solve, resume, stop: a run from its start to its end."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from d2k_agent.cli.console import print_json, print_text
from d2k_agent.cli.parsing import (
    Parser,
    add_api_base,
    add_evaluation_options,
    add_evaluator_options,
    add_json,
    add_model_options,
    add_price_file,
    add_task_of_a_run,
    add_unsafe,
    command,
)
from d2k_agent.cli.tasks import add_levels
from d2k_agent.config import PROTOCOLS, TOKEN_BUDGETS

if TYPE_CHECKING:
    from d2k_agent.app.driving import Finished
    from d2k_agent.cli.parsing import Commands

SOLVE = "d2k-agent solve tasks/muon --levels L1,L2"
RUN_HELP = "a run folder, or the name of one in traces/runs (its last part is enough)"
JSON_HELP = "print one object in the end, as the last line: run_dir, stop_reason, selection, provisional and usage"


def add(commands: Commands) -> None:
    """Add the three commands."""
    parser = command(commands, "solve", "let a model write a kernel for a task", SOLVE, run_solve)
    parser.add_argument("task", metavar="TASK", help="a slug, or the folder of a task")
    add_levels(parser)
    add_model_options(parser)
    add_price_file(parser, "the model's prices")
    parser.add_argument("--turns", type=int, metavar="N", help="budget of turns (default: 350)")
    add_budgets(parser)
    parser.add_argument(
        "--protocol",
        choices=PROTOCOLS,
        help="default: seven tools; paper: its four tools; efficient: seven tools, and old results are shortened "
        "in one step, where that saves more than it costs",
    )
    parser.add_argument(
        "--stop-policy",
        metavar="POLICY",
        help="end the run early by a policy, such as plateau:turns=20,percent=1 (see `d2k-agent study stop --help`); "
        "with --protocol efficient only (default: none)",
    )
    parser.add_argument(
        "--tool",
        dest="more_tools",
        metavar="NAME",
        action="append",
        help="offer this tool as well: sanitize (compute-sanitizer on small workloads); may be repeated",
    )
    parser.add_argument(
        "--profile-tokens", type=int, metavar="N", help="most tokens of a profile in an answer (default: 600)"
    )
    add_evaluation_options(parser)
    parser.add_argument("--run-dir", metavar="FOLDER", help="the run's folder (default: a new one in traces/runs)")
    parser.add_argument("--arm", metavar="NAME", help="arm of the study that this run belongs to")
    parser.add_argument("--pair", metavar="NAME", help="pair of the study that this run belongs to")
    parser.add_argument("--replicate", type=int, metavar="N", help="replicate number within the pair")
    add_output_options(parser)
    parser = command(commands, "resume", "go on with a run that was interrupted", "d2k-agent resume RUN", run_resume)
    parser.add_argument("run_name", metavar="RUN", help=RUN_HELP)
    add_task_of_a_run(parser)
    add_api_base(parser)
    add_evaluator_options(parser)
    add_unsafe(parser)
    add_output_options(parser)
    parser = command(commands, "stop", "end a run for good, with its selection", "d2k-agent stop RUN", run_stop)
    parser.add_argument("run_name", metavar="RUN", help=RUN_HELP)


def add_budgets(parser: Parser) -> None:
    """Limits beside the turns: the first that is reached ends the run before the next request, with its selection."""
    parser.add_argument(
        "--budget-usd",
        type=float,
        metavar="X",
        help="ask no more once the replies that came cost X dollars; lost requests are not counted (default: no limit)",
    )
    parser.add_argument(
        "--budget-tokens",
        action=TokenBudget,
        metavar="BUCKET=N",
        help=f"ask no more once the replies that came took N tokens of {', '.join(TOKEN_BUDGETS)}; may be repeated",
    )
    parser.add_argument(
        "--budget-wall-s", type=float, metavar="SECONDS", help="ask no more after so long; interruptions do not count"
    )
    parser.add_argument(
        "--budget-working-s", type=float, metavar="SECONDS", help="the same, less the time in the queue for a GPU"
    )
    parser.add_argument(
        "--show-budget",
        action="store_true",
        default=None,
        help="tell the model of all limits at the beginning, and after every turn what is left (default: of none)",
    )


class TokenBudget(argparse.Action):
    """BUCKET=N into a mapping; every further use adds another bucket to it."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        """Add one budget, or end with a sentence that says what to give."""
        bucket, _, number = str(values).partition("=")
        given = getattr(namespace, self.dest) or {}
        if bucket not in TOKEN_BUDGETS or not number.isdecimal():
            problem = f"is no budget of tokens; give one of {', '.join(TOKEN_BUDGETS)}, such as output=200000"
        elif int(number) == 0:
            problem = "would end the run before its first request; give a whole number greater than 0"
        elif bucket in given:
            problem = f"is a second budget of {bucket}, beside {given[bucket]}; give one"
        else:
            setattr(namespace, self.dest, {**given, bucket: int(number)})
            return
        raise argparse.ArgumentError(self, f"{values!r} {problem}")


def add_output_options(parser: Parser) -> None:
    """Options of commands that drive a run."""
    add_json(parser, JSON_HELP)
    parser.add_argument("--quiet", action="store_true", help="print no progress, only the outcome")


def run_solve(arguments: argparse.Namespace) -> int:
    """Start a run and drive it to its end."""
    from d2k_agent.app.solving import solve
    from d2k_agent.app.surroundings import here
    from d2k_agent.cli.options import settings_of
    from d2k_agent.cli.progress import open_progress

    with open_progress(quiet=arguments.quiet, json=arguments.json) as progress:
        finished = solve(
            here(), arguments.task, settings_of(arguments), arguments.levels, arguments.any_levels, progress
        )
    return print_outcome(arguments, finished)


def run_resume(arguments: argparse.Namespace) -> int:
    """Go on with a run and drive it to its end."""
    from d2k_agent.app.solving import resume
    from d2k_agent.app.surroundings import here
    from d2k_agent.cli.options import settings_of
    from d2k_agent.cli.progress import open_progress

    with open_progress(quiet=arguments.quiet, json=arguments.json) as progress:
        finished = resume(here(), arguments.run_name, settings_of(arguments), progress, arguments.task)
    return print_outcome(arguments, finished)


def run_stop(arguments: argparse.Namespace) -> int:
    """End the run, or have its driver end it."""
    from d2k_agent.app.inventory import stop
    from d2k_agent.app.surroundings import here
    from d2k_agent.cli.options import settings_of

    print_text(stop(here(), arguments.run_name, settings_of(arguments)))
    return 0


def print_outcome(arguments: argparse.Namespace, finished: Finished) -> int:
    """The outcome for people or for scripts; 0, since a run that ended by its own rules is done."""
    from d2k_agent.app.surroundings import here
    from d2k_agent.reports.outcome import outcome_data, outcome_text
    from d2k_agent.reports.paths import nearby

    if arguments.json:
        print_json(outcome_data(finished.run_dir, finished.trace, finished.replayed))
    else:
        folder = nearby(finished.run_dir, here().folder)
        print_text(outcome_text(folder, finished.trace, finished.replayed))
    return 0
