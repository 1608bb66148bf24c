"""trace show | replay: what a run did, and the same once more."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from d2k_agent.cli.parsing import add_evaluation_options, add_json, add_task_of_a_run, command, group
from d2k_agent.cli.solve import RUN_HELP, add_output_options, print_outcome

if TYPE_CHECKING:
    from d2k_agent.cli.parsing import Commands


def add(commands: Commands) -> None:
    """Add the group."""
    members = group(commands, "trace", "show and replay what a run recorded", "d2k-agent trace show RUN")
    parser = command(members, "show", "print a run's events", "d2k-agent trace show RUN --follow", run_show)
    parser.add_argument("run_name", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--follow", action="store_true", help="wait for new events until the run ends")
    add_json(parser, "print each event as one JSON object a line")
    parser = command(
        members,
        "replay",
        "let a run's recorded replies drive the real loop again",
        "d2k-agent trace replay RUN",
        run_replay,
        "Every tool call is really executed. Where a result differs from the recorded one, the divergence is reported.",
    )
    parser.add_argument("run_name", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--run-dir", metavar="FOLDER", help="the new run's folder (default: one in traces/runs)")
    add_task_of_a_run(parser)
    add_evaluation_options(
        parser, "GPU to compile for (default: the recorded run's own --target, else the one here, else b200)"
    )
    add_output_options(parser)


def run_show(arguments: argparse.Namespace) -> int:
    """Print what the run is and its events so far, and with --follow those to come; with --json events alone."""
    from d2k_agent.app.inventory import events, so_far
    from d2k_agent.app.surroundings import here
    from d2k_agent.cli.console import print_json, print_text
    from d2k_agent.cli.options import settings_of
    from d2k_agent.reports.run_header import run_header
    from d2k_agent.reports.trace_text import TraceText

    around, settings = here(), settings_of(arguments)
    found = events(around, arguments.run_name, settings, follow=arguments.follow)
    if arguments.json:
        for event in found:
            print_json(event.model_dump(mode="json"))
            sys.stdout.flush()
        return 0
    trace, teller = so_far(around, arguments.run_name, settings), TraceText()
    print_text(f"{run_header(trace)}\n")
    if not trace.events:
        print_text("no events yet")
    for event in found:
        print_text(teller.event(event))
        sys.stdout.flush()
    return 0


def run_replay(arguments: argparse.Namespace) -> int:
    """Solve again with the recorded replies; the outcome names every divergence."""
    from d2k_agent.app.solving import replay
    from d2k_agent.app.surroundings import here
    from d2k_agent.cli.options import settings_of
    from d2k_agent.cli.progress import open_progress

    with open_progress(quiet=arguments.quiet, json=arguments.json) as progress:
        finished = replay(here(), arguments.run_name, settings_of(arguments), progress, arguments.task)
    return print_outcome(arguments, finished)
