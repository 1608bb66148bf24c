"""Recorded runs as reports: found, read one after another, and what cannot be read said in a sentence."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from d2k_agent.app.ceilings import KnownCeilings
from d2k_agent.app.inventory import find_run, runs_in
from d2k_agent.app.surroundings import Surroundings
from d2k_agent.config import Settings
from d2k_agent.errors import D2KError, UsageError
from d2k_agent.reports.paths import nearby

if TYPE_CHECKING:
    from d2k_agent.records import Confirmation, RunFolder, Submission, Trace
    from d2k_agent.reports.curve_report import RunReport
    from d2k_agent.reports.headroom import Headroom

Read = TypeVar("Read")

MOST_TRACE_CHARS = 6_000_000
"""Of all traces on one page: a browser opens that at once, and the text is at hand by `trace show` in any case."""
MOST_DETAILED = 20
"""Runs on a page that has every turn and the trace of each."""


@dataclass(frozen=True)
class Reported:
    """The runs that could be read, and for every other one a sentence by its name."""

    runs: tuple[RunReport, ...]
    problems: dict[str, str]


def report_runs(
    around: Surroundings,
    names: Sequence[str],
    command_line: Settings,
    progress: Callable[[str], None],
    *,
    traces: bool,
) -> Reported:
    """Reports on the runs named, see read_runs(). `traces`: as much of them is kept as a page may hold."""

    def read(run: RunFolder, label: str, count: int) -> RunReport:
        most_chars = MOST_TRACE_CHARS // count if traces and count <= MOST_DETAILED else None
        return _report(around, run, label, most_chars)

    runs, problems = read_runs(around, names, command_line, progress, read)
    return Reported(tuple(runs), problems)


def read_runs(
    around: Surroundings,
    names: Sequence[str],
    command_line: Settings,
    progress: Callable[[str], None],
    read: Callable[[RunFolder, str, int], Read],
) -> tuple[list[Read], dict[str, str]]:
    """What `read` makes of each run named, given its name and how many there are; and by name what cannot be read.

    A folder of runs stands for all of them, and what is named twice counts once. A run's events are let go before the
    next run is read.
    """
    settings = around.settings(command_line)
    found: dict[str, RunFolder] = {}
    problems: dict[str, str] = {}
    for name in names:
        try:
            found.update((os.path.realpath(run.path), run) for run in _named(around, settings, name))
        except D2KError as error:
            problems[name] = str(error)
    labels = _labels(around, list(found.values()))
    made = []
    for number, (run, label) in enumerate(labels.items(), start=1):
        progress(f"reading run {number} of {len(labels)}: {label}")
        try:
            made.append(read(run, label, len(labels)))
        except D2KError as error:
            problems[label] = str(error)
        except OSError as error:
            problems[label] = f"{error.filename or run.path} cannot be read ({error.strerror}); correct that"
        except (ValueError, OverflowError) as error:
            problems[label] = f"{run.path} holds records that contradict each other ({error}); restore it from a copy"
    return made, problems


def page_path(around: Surroundings, names: Sequence[str], out: str | None) -> Path:
    """Where the page goes: `out`, else a file here, named after the run where there is one.

    Raises UsageError where something lies there that is no such page.
    """
    from d2k_agent.reports.page import is_page

    if out in ("", "-"):
        raise UsageError(f"--out {out or repr(out)} names no file; name one, or leave --out out")
    alone = Path(names[0]).resolve().name if len(names) == 1 else ""
    path = around.folder / (out or ("-".join(filter(None, (alone, "report"))) + ".html"))
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file in it with --out")
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent} for the page; make it, or name another file with --out")
    if path.exists() and not is_page(path):
        raise UsageError(f"{path} is there and is no page of a report; name another file with --out, or remove it")
    return path


def written_page(path: Path, found: Reported, budgets: Sequence[int]) -> None:
    """Write the page of a report to `path`. Raises MachineError where the disk refuses."""
    from d2k_agent.records.files import write_atomically
    from d2k_agent.reports.page import page_html

    write_atomically(path, page_html(found.runs, budgets, found.problems).encode())


def _named(around: Surroundings, settings: Settings, name: str) -> Iterator[RunFolder]:
    from d2k_agent.records import RunFolder

    folder = around.folder / name
    inside = [] if RunFolder(folder).exists else runs_in(folder)
    yield from inside or [find_run(around, settings, name)]


def _labels(around: Surroundings, runs: Sequence[RunFolder]) -> dict[RunFolder, str]:
    """A name for each: its folder's, and the whole path where two are called the same."""
    names = [run.path.resolve().name for run in runs]
    return {
        run: name if names.count(name) == 1 else str(nearby(run.path, around.folder))
        for run, name in zip(runs, names, strict=True)
    }


def trace_of(run: RunFolder) -> Trace:
    """The run as it is recorded. Raises UsageError also for an event log that has no end."""
    from d2k_agent.records import read_trace

    if os.path.lexists(run.events) and not os.path.isfile(run.events):
        raise UsageError(f"{run.events} is no file that could be read to its end; restore it from a copy")
    return read_trace(run.path)


def _report(around: Surroundings, run: RunFolder, label: str, most_chars: int | None) -> RunReport:
    from d2k_agent.reports.curve_report import run_report
    from d2k_agent.reports.headroom import headroom_notes

    trace = trace_of(run)
    report = run_report(trace, label, str(run.path), driven=run.driver() is not None, most_chars=most_chars)
    headroom = _headroom(around, trace, report.chosen)
    notes = (*report.notes, *headroom_notes(headroom))
    return replace(report, source=_source(run, report.chosen), headroom=tuple(headroom), notes=notes)


def _headroom(around: Surroundings, trace: Trace, sha256: str | None) -> list[Headroom]:
    """How far the candidate was above the modelled floors when it was last measured, where they are known.

    Of a task that does not ship nothing is said: the run's folder may be a stranger's, and so would be the counts.
    """
    from d2k_agent.catalog import cache_bytes, counts_of, shipped_task
    from d2k_agent.reports.headroom import headroom_of
    from d2k_agent.reports.measured_text import measured_of_records

    task = shipped_task(trace.run.task_slug)
    judged: list[Submission | Confirmation] = [*trace.submissions, *trace.confirmations]
    timed = [(item.verdict, item.times) for item in judged if item.sha256 == sha256 and item.times is not None]
    if not timed or task is None or task.bundle().digest != trace.run.task_digest:
        return []
    verdict, times = timed[-1]
    ceilings = KnownCeilings(around).best(verdict.environment.device_name)
    measured = measured_of_records(verdict, times)
    counts = counts_of(task, verdict.environment.details)
    return headroom_of(measured, counts, ceilings, cache_bytes(verdict.environment))


def _source(run: RunFolder, sha256: str | None) -> str | None:
    """The candidate's text; None where it is not there or is another one."""
    if sha256 is None or not os.path.isfile(run.candidates / f"{sha256}.py"):
        return None
    try:
        return run.candidate(sha256)
    except D2KError:
        return None
