"""profile, sanitize: a candidate's kernels looked at on a GPU, outside any run."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from d2k_agent.cli.evaluate import add_candidate
from d2k_agent.cli.parsing import command
from d2k_agent.contract import SanitizerCheck
from d2k_agent.contract.profile import SECTIONS

if TYPE_CHECKING:
    from d2k_agent.cli.parsing import Commands
    from d2k_agent.contract import JobKind, ProfileWish, Verdict

PROFILE = "d2k-agent profile tasks/muon solution.py --sections memory,source"
SANITIZE = "d2k-agent sanitize tasks/muon solution.py --check racecheck"
CHECKS = tuple(check.value for check in SanitizerCheck)


def add(commands: Commands) -> None:
    """Add the two commands."""
    parser = command(commands, "profile", "profile a candidate's kernels on the GPU", PROFILE, run_profile)
    add_candidate(parser)
    parser.add_argument(
        "--sections",
        metavar="LIST",
        default="",
        help=f"what to look into for the longest kernels, with commas between: {', '.join(SECTIONS)}",
    )
    parser.add_argument(
        "--against",
        metavar="FILE|RUN|SHA256",
        help="say what changed: against a profile that --json printed, that of a run's selected candidate, or that of "
        "a candidate of any run",
    )
    parser.add_argument(
        "--call-ms",
        type=float,
        metavar="MS",
        help="the call's measured latency: tells whether launches or the host bound it",
    )
    parser.add_argument("--tokens", type=int, metavar="N", help="print it as a model gets it, in N tokens at most")
    parser = command(
        commands,
        "sanitize",
        "check a candidate's kernels with compute-sanitizer on smoke shapes",
        SANITIZE,
        run_sanitize,
    )
    add_candidate(parser)
    parser.add_argument(
        "--check",
        choices=CHECKS,
        default="memcheck",
        help="memcheck: out of bounds or misaligned; racecheck: shared memory; initcheck: unwritten global memory",
    )


def run_profile(arguments: argparse.Namespace) -> int:
    """Print the profile, or why there is none and the compiler's report: 2 then, 1 when the candidate failed."""
    from d2k_agent.app.profiles import against, earlier_profiles
    from d2k_agent.app.surroundings import here
    from d2k_agent.cli.options import settings_of
    from d2k_agent.contract import JobKind

    wish = _wish(arguments)
    earlier = earlier_profiles(here(), settings_of(arguments), arguments.against) if arguments.against else ()
    verdict = _judge(arguments, JobKind.PROFILE, wish=wish)
    change = None
    if earlier and verdict.profile is not None:
        change = against(verdict.profile, earlier, arguments.against)
    _print(arguments, verdict, JobKind.PROFILE, change)
    if not verdict.status.acceptable:
        return 1
    return 0 if verdict.profile is not None else 2


def run_sanitize(arguments: argparse.Namespace) -> int:
    """Print what was found, or why nobody could look; 1 when something was found, or the candidate failed, 2 when
    nobody looked: a script must not take that for clean."""
    from d2k_agent.contract import JobKind, SanitizerCheck

    verdict = _judge(arguments, JobKind.SANITIZE, check=SanitizerCheck(arguments.check))
    _print(arguments, verdict, JobKind.SANITIZE, None)
    if not verdict.status.acceptable:
        return 1
    if verdict.sanitizer is None:
        return 2
    return 0 if verdict.sanitizer.clean else 1


def _wish(arguments: argparse.Namespace) -> ProfileWish:
    """The sections and the latency as asked for. Raises UsageError for what cannot be asked for."""
    from d2k_agent.config import LEAST_PROFILE_TOKENS
    from d2k_agent.contract import ProfileWish
    from d2k_agent.errors import UsageError

    sections = [name.strip() for name in arguments.sections.split(",") if name.strip()]
    for name in sections:
        if name not in SECTIONS:
            raise UsageError(f"--sections: there is no section {name!r}; choose from {', '.join(SECTIONS)}")
    if arguments.against == "":
        raise UsageError("--against names nothing; give a file, a run or a candidate's sha256, or leave it out")
    if arguments.call_ms is not None and not 0 < arguments.call_ms < float("inf"):
        raise UsageError(f"--call-ms must be greater than 0, not {arguments.call_ms:g}; give milliseconds a call")
    if arguments.tokens is not None and arguments.tokens < LEAST_PROFILE_TOKENS:
        raise UsageError(f"--tokens must be at least {LEAST_PROFILE_TOKENS}, not {arguments.tokens}")
    if arguments.tokens is not None and arguments.json:
        raise UsageError("--tokens is a text to read, and --json holds all that is in it; leave one of them out")
    return ProfileWish(tuple(dict.fromkeys(sections)), arguments.call_ms)


def _judge(arguments: argparse.Namespace, kind: JobKind, **options: Any) -> Verdict:
    from d2k_agent.app.evaluation import judge_file
    from d2k_agent.app.surroundings import here
    from d2k_agent.cli.options import settings_of
    from d2k_agent.cli.progress import open_progress

    task, solution, labels = arguments.task, Path(arguments.solution), arguments.workload
    with open_progress(quiet=False, json=True) as progress:
        return judge_file(here(), settings_of(arguments), kind, task, solution, labels, progress.step, **options)


def _print(arguments: argparse.Namespace, verdict: Verdict, kind: JobKind, change: str | None) -> None:
    from d2k_agent.cli.console import print_json, print_text
    from d2k_agent.reports.verdict_data import verdict_data
    from d2k_agent.reports.verdict_text import answer_text

    if arguments.json:
        print_json(verdict_data(verdict))
    elif getattr(arguments, "tokens", None) is not None:
        from d2k_agent.reports.brief_text import brief_answer

        print_text(brief_answer(kind, verdict, change, arguments.tokens))
    else:
        print_text(answer_text(kind, verdict, change))
