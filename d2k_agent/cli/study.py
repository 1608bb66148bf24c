"""study: questions that are put to recorded runs."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from d2k_agent.cli.parsing import add_json, command, group

if TYPE_CHECKING:
    from d2k_agent.cli.parsing import Commands

SUMMARY = "replay stopping policies over runs: what ending early had saved, and how much of the score had stayed"
EXAMPLE = "d2k-agent study stop RUN --policy plateau:turns=20,percent=1"
DETAILS = """\
headroom:factor=1.2          stop when the fastest candidate takes at most 1.2 times the floor of the best known
                             algorithm (geometric mean over the workloads)
plateau:turns=20,percent=1   stop when 20 turns made the score better by no more than 1 %
gain:percent-per-usd=0.5     stop when the next turn is expected to make it better by less than 0.5 % a dollar, as
                             the last 20 did (turns=N); percent-per-mtok=X: a million tokens, where no price is known

Each policy sees only what was recorded until the turn that it decides about, and waits for the first eligible
submission. Several runs are averaged where model, levels, turn limit and own policy are the same and they were judged
in the same circumstances. Nothing is written."""
COULD_NOT_REPLAY = 2


def add(commands: Commands) -> None:
    """Add the group."""
    members = group(commands, "study", "put questions to recorded runs", EXAMPLE)
    parser = command(members, "stop", SUMMARY, EXAMPLE, run_stop, DETAILS)
    parser.add_argument(
        "run_names",
        metavar="RUN",
        nargs="+",
        help="a run folder, the name of one in traces/runs (its last part is enough), or a folder of runs",
    )
    parser.add_argument(
        "--policy",
        dest="policies",
        metavar="POLICY",
        action="append",
        default=[],
        help="a policy to replay, by itself; may be given again (default: a few of each kind)",
    )
    add_json(parser, "print one object: replays (one a policy and run), means over runs of a kind, floors, problems")


def run_stop(arguments: argparse.Namespace) -> int:
    """Print what each policy had saved and kept; 2 where a run could not be replayed."""
    from d2k_agent.app.studying import replay_stops
    from d2k_agent.app.surroundings import here
    from d2k_agent.cli.console import print_json, print_text
    from d2k_agent.cli.options import settings_of
    from d2k_agent.cli.progress import open_progress
    from d2k_agent.reports.stop_text import stop_data, stop_text

    with open_progress(quiet=False, json=True) as progress:
        found = replay_stops(here(), arguments.run_names, arguments.policies, settings_of(arguments), progress.step)
    for problem in found.problems.values():
        print_text(f"d2k-agent: {problem}", sys.stderr)
    if found.replays and arguments.json:
        print_json(stop_data(found.replays, found.floors, found.problems))
    elif found.replays:
        print_text(stop_text(found.replays, found.floors))
    return COULD_NOT_REPLAY if found.problems else 0
