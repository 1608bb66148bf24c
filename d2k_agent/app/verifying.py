"""An earlier verdict put to the test: its file is read, the candidate judged again, and the two are compared."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from d2k_agent.app.evaluation import judge_file, read_candidate
from d2k_agent.app.surroundings import Surroundings
from d2k_agent.config import Settings
from d2k_agent.contract import JobKind, Verdict, source_sha256
from d2k_agent.contract.wire import WireError
from d2k_agent.errors import UsageError
from d2k_agent.reports.verdict_data import verdict_of
from d2k_agent.reports.verified import Comparison, compare

if TYPE_CHECKING:
    from d2k_agent.launchers import Progress

MOST_VERDICT_BYTES = 16 << 20


def verify_file(
    around: Surroundings,
    command_line: Settings,
    task_name: str,
    solution: Path,
    labels: Sequence[str],
    progress: Progress,
    earlier: Path,
    baseline: Path | None = None,
    ranks: int | None = None,
) -> Comparison:
    """Judge the file `solution` again, under a fresh seed, and compare with the verdict in the file `earlier`.

    The rest as in judge_file(); `ranks`, where None, as in that verdict. Raises UsageError, before anything is started,
    where `earlier` holds no verdict, or one on another source or under another task.
    """
    before = read_verdict(earlier)
    _require_task(before, task_name, earlier)
    _require_source(before, source_sha256(read_candidate(solution)), earlier, solution)
    now = judge_file(
        around,
        command_line,
        JobKind.EVALUATE,
        task_name,
        solution,
        labels,
        progress,
        baseline,
        ranks=_ranks(before, task_name, earlier) if ranks is None else ranks,
    )
    _require_source(before, now.candidate_sha256, earlier, solution)  # somebody may have edited it meanwhile
    return compare(before, now)


def read_verdict(path: Path) -> Verdict:
    """The verdict that `evaluate --json` printed into `path`. Raises UsageError for a file that holds none."""
    try:
        with path.open("rb") as file:
            raw = file.read(MOST_VERDICT_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(f"there is no file {path}; name one that holds what `evaluate --json` printed") from None
    except OSError as problem:
        raise UsageError(f"{path} cannot be read ({problem.strerror}); correct its path or permissions") from None
    if len(raw) > MOST_VERDICT_BYTES:
        _refuse(path, f"it is larger than {MOST_VERDICT_BYTES >> 20} MiB")
    try:
        data = json.loads(raw.decode("utf-8"), parse_constant=_no_constant)
    except UnicodeDecodeError as problem:
        _refuse(path, f"it is not UTF-8 text (byte {problem.start})")
    except json.JSONDecodeError as problem:
        _refuse(path, f"it is no JSON, or was cut off: line {problem.lineno}, column {problem.colno}: {problem.msg}")
    except (ValueError, RecursionError) as problem:
        _refuse(path, f"it is no JSON that `evaluate` prints: {problem}")
    try:
        return verdict_of(data)
    except (WireError, OverflowError) as problem:  # a whole number may be too large for a float
        _refuse(path, str(problem))


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")


def _refuse(path: Path, why: str) -> NoReturn:
    raise UsageError(f"{path} holds no verdict ({why}); `evaluate TASK FILE --json > verdict.json` writes one")


def _require_task(before: Verdict, task_name: str, earlier: Path) -> None:
    from d2k_agent.catalog import find_task, list_tasks

    task, then = find_task(task_name), before.environment.task_digest
    now = task.bundle().digest
    if then == now:
        return
    names = []
    with suppress(UsageError):  # another task's folder that cannot be read is not what is wrong here
        names = [other.slug for other in list_tasks() if other.bundle().digest == then]
    told = f"under another task, {names[0]}, than" if names else "made under other files than those that make up"
    raise UsageError(
        f"{earlier} is a verdict {told} {task_name} (digest {then[:12]}; {task.slug} has {now[:12]}); name the task of "
        "then, or a folder that holds it as it was"
    )


def _ranks(before: Verdict, task_name: str, earlier: Path) -> int | None:
    """For how many ranks it was judged, None where for one. Raises UsageError for a number that is not the task's."""
    from d2k_agent.catalog import find_task

    ranks = before.environment.details.get("ranks")
    if ranks is None or (isinstance(ranks, int) and ranks in find_task(task_name).ranks):
        return ranks
    _refuse(earlier, f"{task_name} is not for {str(ranks)[:40]!r} ranks, of which it tells")


def _require_source(before: Verdict, sha256: str, earlier: Path, solution: Path) -> None:
    if before.candidate_sha256 != sha256:
        raise UsageError(
            f"{earlier} is a verdict on another source (sha256 {before.candidate_sha256[:12]}) than {solution} "
            f"({sha256[:12]}); name the file that was judged then"
        )
