"""evaluate, compile: one candidate, judged outside any run."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from d2k_agent.cli.parsing import Parser, add_evaluation_options, add_json, command

if TYPE_CHECKING:
    from d2k_agent.cli.parsing import Commands
    from d2k_agent.contract import JobKind, Verdict
    from d2k_agent.reports.headroom import Headroom

EVALUATE = "d2k-agent evaluate tasks/muon solution.py"
COMPILE = "d2k-agent compile tasks/muon solution.py --target b200"
_UNTIMED = "nothing was measured, so this counts as a failure; use a machine with an NVIDIA GPU"


def add(commands: Commands) -> None:
    """Add the two commands."""
    parser = command(commands, "evaluate", "judge a candidate and print the verdict", EVALUATE, run_evaluate)
    add_candidate(parser)
    _add_ranks(parser)
    parser.add_argument("--baseline", metavar="FILE", help="the source that speedups are over (default: the task's)")
    parser.add_argument(
        "--require-timing",
        action="store_true",
        help="exit with 1 when nothing could be measured (with --verify: when no latency could be compared)",
    )
    parser.add_argument("--explain", action="store_true", help="print a page: every check, clock, limit and digest")
    parser.add_argument(
        "--verify", metavar="VERDICT", help="judge again and compare with this verdict, a file of what --json printed"
    )
    parser = command(
        commands, "compile", "compile every kernel that a candidate launches, GPU or not", COMPILE, run_compile
    )
    add_candidate(parser)
    _add_ranks(parser)


def add_candidate(parser: Parser) -> None:
    """Arguments of every command about one candidate's file."""
    parser.add_argument("task", metavar="TASK", help="a slug, or the folder of a task")
    parser.add_argument("solution", metavar="FILE", help="the candidate's source, a Python file")
    parser.add_argument(
        "--workload", metavar="LABEL", action="append", default=[], help="only this workload (may be repeated)"
    )
    add_evaluation_options(parser)
    add_json(parser, "print the verdict as one JSON object")


def _add_ranks(parser: Parser) -> None:
    parser.add_argument(
        "--ranks",
        type=int,
        metavar="N",
        help="processes of a task for several GPUs, one of the numbers that `tasks show` names (default: the first)",
    )


def run_evaluate(arguments: argparse.Namespace) -> int:
    """Print the verdict; 0 for passed and untimed, else 1 (decision 1). With --verify: 0 where the other one holds."""
    from d2k_agent.contract import JobKind, VerdictStatus
    from d2k_agent.errors import UsageError

    if arguments.explain and arguments.json:
        raise UsageError("--explain is a page to read, and --json holds all that is on it; leave one of them out")
    if arguments.verify is not None:
        return _verify(arguments)
    verdict = _judge(JobKind.EVALUATE, arguments)
    if arguments.require_timing and verdict.status is VerdictStatus.UNTIMED:
        print(f"--require-timing: {_UNTIMED}", file=sys.stderr)
        return 1
    return 0 if verdict.status.acceptable else 1


def _verify(arguments: argparse.Namespace) -> int:
    """Print how the verdict of now compares with the earlier one; 0 where that holds, else 1.

    With --require-timing it holds only where latencies were compared: who made up a version could avoid that.
    """
    from d2k_agent.app.surroundings import here
    from d2k_agent.app.verifying import verify_file
    from d2k_agent.cli.console import print_json, print_text
    from d2k_agent.cli.options import settings_of
    from d2k_agent.cli.progress import open_progress
    from d2k_agent.reports.explained_text import explained_text
    from d2k_agent.reports.verified_text import verified_data, verified_text

    solution, earlier = Path(arguments.solution), Path(arguments.verify)
    with open_progress(quiet=False, json=True) as progress:
        comparison = verify_file(
            here(),
            settings_of(arguments),
            arguments.task,
            solution,
            arguments.workload,
            progress.step,
            earlier,
            _baseline(arguments),
            arguments.ranks,
        )
    if arguments.json:
        print_json(verified_data(comparison))
    else:
        print_text(verified_text(comparison, str(earlier)))
        if arguments.explain:
            print_text(f"\n{explained_text(comparison.now, _headroom(arguments, comparison.now))}")
    lacking = arguments.require_timing and not (comparison.latencies and comparison.comparable)
    if lacking:
        print(
            "--require-timing: no latencies could be compared (see above), so this counts as a failure",
            file=sys.stderr,
        )
    return 0 if comparison.verified and not lacking else 1


def run_compile(arguments: argparse.Namespace) -> int:
    """Print the compiler's report; 1 when the candidate does not compile for the target."""
    from d2k_agent.contract import JobKind

    return 0 if _judge(JobKind.COMPILE, arguments).status.acceptable else 1


def _judge(kind: JobKind, arguments: argparse.Namespace) -> Verdict:
    from d2k_agent.app.evaluation import judge_file
    from d2k_agent.app.surroundings import here
    from d2k_agent.cli.options import settings_of
    from d2k_agent.cli.progress import open_progress

    solution, labels, baseline = Path(arguments.solution), arguments.workload, _baseline(arguments)
    # The answer is all that stdout holds; what is being checked is shown beside it, where somebody looks.
    with open_progress(quiet=False, json=True) as progress:
        verdict = judge_file(
            here(),
            settings_of(arguments),
            kind,
            arguments.task,
            solution,
            labels,
            progress.step,
            baseline,
            ranks=arguments.ranks,
        )
    _print(arguments, verdict, kind)
    return verdict


def _headroom(arguments: argparse.Namespace, verdict: Verdict) -> list[Headroom]:
    from d2k_agent.app.ceilings import headroom_of_verdict
    from d2k_agent.app.surroundings import here
    from d2k_agent.catalog import find_task

    return headroom_of_verdict(here(), find_task(arguments.task), verdict)


def _baseline(arguments: argparse.Namespace) -> Path | None:
    given = getattr(arguments, "baseline", None)
    return None if given is None else Path(given)


def _print(arguments: argparse.Namespace, verdict: Verdict, kind: JobKind) -> None:
    from d2k_agent.cli.console import print_json, print_text
    from d2k_agent.reports.explained_text import explained_text
    from d2k_agent.reports.verdict_data import verdict_data
    from d2k_agent.reports.verdict_text import answer_text

    if arguments.json:
        print_json(verdict_data(verdict))
    elif getattr(arguments, "explain", False):
        print_text(explained_text(verdict, _headroom(arguments, verdict)))
    else:
        print_text(answer_text(kind, verdict))
