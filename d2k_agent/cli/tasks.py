"""tasks list | show | new | check | stage: what there is to solve, and what an agent would see of it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from d2k_agent.cli.parsing import add_json, command, group

if TYPE_CHECKING:
    from d2k_agent.catalog import Finding
    from d2k_agent.cli.parsing import Commands


CHECK = "d2k-agent tasks check muon"


def add(commands: Commands) -> None:
    """Add the group."""
    members = group(commands, "tasks", "list, show, begin, check and stage tasks", "d2k-agent tasks list")
    parser = command(members, "list", "list the tasks", "d2k-agent tasks list --json", run_list)
    add_json(parser, "print a list of {slug, title, category, workloads, latencies, floors}")
    parser = command(
        members, "show", "show one task's description and workloads", "d2k-agent tasks show muon", run_show
    )
    parser.add_argument("task", metavar="TASK", help="a slug, or the folder of a task")
    add_json(parser, "print one object: slug, title, category, workloads with their parameters, floors, description")
    parser = command(members, "new", "begin a task of your own", "d2k-agent tasks new my_task", run_new)
    parser.add_argument("slug", metavar="SLUG", help="its name: lower case letters, digits and _")
    parser.add_argument("--out", metavar="FOLDER", help="a new folder (default: SLUG, here)")
    add_json(parser, "print one object: out, files")
    parser = command(members, "check", "check that a task is complete and can tell right from wrong", CHECK, run_check)
    parser.add_argument("task", metavar="TASK", help="a slug, or the folder of a task: its Python is run")
    parser.add_argument("--no-run", action="store_true", help="read and parse only: run nothing of the task")
    add_json(parser, "print a list of {check, passed, message}")
    parser = command(
        members,
        "stage",
        "write exactly what an agent would see",
        "d2k-agent tasks stage muon --levels L1,L2 --out staged",
        run_stage,
    )
    parser.add_argument("task", metavar="TASK", help="a slug, or the folder of a task")
    add_levels(parser)
    parser.add_argument("--out", metavar="FOLDER", required=True, help="a new or empty folder")
    add_json(parser, "print one object: out, files")


def add_levels(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose the design guidance handed out."""
    parser.add_argument(
        "--levels", metavar="LEVELS", default="", help="levels of design guidance to hand out: L1 or L1,L2 or L1,L2,L3"
    )
    parser.add_argument("--any-levels", action="store_true", help="allow levels that are no prefix, such as L2 alone")


def run_list(arguments: argparse.Namespace) -> int:
    """Print the tasks, by slug."""
    from d2k_agent.app.ceilings import KnownCeilings
    from d2k_agent.app.surroundings import here
    from d2k_agent.catalog import list_tasks, source_latencies
    from d2k_agent.cli.console import print_json, print_text
    from d2k_agent.contract.wire import to_data
    from d2k_agent.reports.task_text import floors_data, tasks_text, workload_floors

    tasks, ceilings = list_tasks(), KnownCeilings(here()).best
    if arguments.json:
        print_json(
            [
                {
                    "slug": task.slug,
                    "title": task.title,
                    "category": task.category,
                    "workloads": [workload.label for workload in task.workloads],
                    "latencies": {label: to_data(item) for label, item in source_latencies(task.folder).items()},
                    "floors": floors_data(workload_floors(task, ceilings)),
                }
                for task in tasks
            ]
        )
        return 0
    print_text(tasks_text(tasks, ceilings))
    return 0


def run_show(arguments: argparse.Namespace) -> int:
    """Print one task."""
    from d2k_agent.app.ceilings import KnownCeilings
    from d2k_agent.app.surroundings import here
    from d2k_agent.catalog import find_task
    from d2k_agent.cli.console import print_json, print_text
    from d2k_agent.contract.wording import either
    from d2k_agent.reports.task_text import floors_data, floors_text, workload_floors

    task, ceilings = find_task(arguments.task), KnownCeilings(here()).best
    description = task.public_files()["task_description.md"].decode("utf-8")
    if arguments.json:
        print_json(
            {
                "slug": task.slug,
                "title": task.title,
                "category": task.category,
                "folder": str(task.folder),
                "ranks": list(task.ranks),
                "workloads": [{"label": item.label, **item.params} for item in task.workloads],
                "floors": floors_data(workload_floors(task, ceilings)),
                "description": description,
            }
        )
        return 0
    lines = [f"{task.slug}: {task.title} ({task.category})", str(task.folder)]
    if task.ranks:
        usual, *others = task.ranks
        more = f", on {either(others)} with --ranks of evaluate and compile" if others else ""
        lines.append(f"judged on {usual} ranks{more}; floors are for {usual}")
    lines.append("")
    for workload in task.workloads:
        shape = {name: value for name, value in workload.params.items() if isinstance(value, int | float | bool)}
        lines.append(f"  {workload.label}  " + "  ".join(f"{name}={value}" for name, value in shape.items()))
    print_text("\n".join([*lines, "", floors_text([task], ceilings), "", description.rstrip()]))
    return 0


def run_new(arguments: argparse.Namespace) -> int:
    """Write the scaffold and say what comes next."""
    from d2k_agent.catalog import new_task
    from d2k_agent.cli.console import print_json, print_text
    from d2k_agent.reports.paths import command as line

    out = Path(arguments.slug if arguments.out is None else arguments.out)
    files = new_task(arguments.slug, out)
    if arguments.json:
        print_json({"out": str(out), "files": files})
    else:
        print_text(f"{len(files)} files in {out}: a task that works and that nobody has written yet.")
        print_text(f"`{line('tasks', 'check', out if out.is_absolute() else f'./{out}')}` says what is left to write.")
    return 0


def run_check(arguments: argparse.Namespace) -> int:
    """Print the findings; 1 when one of them failed. The task's code runs only where its files are in order.

    Texts that are still to be written keep no code from running. A terminal shows progress and the findings at the end;
    a file or a pipe gets each of them as it comes.
    """
    from d2k_agent.app.proving import proofs_of
    from d2k_agent.app.surroundings import here
    from d2k_agent.catalog import check_task, find_task
    from d2k_agent.cli.console import print_json, print_text
    from d2k_agent.cli.progress import open_progress

    task = find_task(arguments.task)
    findings: list[Finding] = []
    at_once = not arguments.json and not sys.stdout.isatty()

    def take(items: Iterable[Finding]) -> None:
        for item in items:
            findings.append(item)
            if at_once:
                print_text(_finding_line(item))
                sys.stdout.flush()

    take(check_task(task))
    if not arguments.no_run and all(item.passed or item.check == "written" for item in findings):
        with open_progress(quiet=False, json=True) as progress:
            take(proofs_of(here(), task, progress.step))
    if arguments.json:
        print_json([vars(item) for item in findings])
    elif not at_once:
        print_text("\n".join(map(_finding_line, findings)))
    return 0 if all(item.passed for item in findings) else 1


def _finding_line(item: Finding) -> str:
    more = item.seen if item.passed else item.message
    return f"{'ok' if item.passed else 'FAILED':<6}  {item.check}{f': {more}' if more else ''}"


def run_stage(arguments: argparse.Namespace) -> int:
    """Write the staged files and name them."""
    from d2k_agent.catalog import find_task, parse_levels, stage, staged_files
    from d2k_agent.cli.console import print_json, print_text

    task = find_task(arguments.task)
    levels = parse_levels(arguments.levels, any_levels=arguments.any_levels)
    files = sorted(staged_files(task, levels))
    stage(task, levels, Path(arguments.out))
    if arguments.json:
        print_json({"out": arguments.out, "files": files})
    else:
        print_text(f"{len(files)} files in {arguments.out}: {', '.join(files)}")
    return 0
