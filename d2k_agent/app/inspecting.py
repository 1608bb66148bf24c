"""inspect: what compilers say of a file for several targets, from the user's cache where it was asked before.

Covers: which reports are wanted, the cache, the evaluator for the rest. Does not cover: compiling (an evaluator's job,
as for `compile`) or words (reports/inspect_text.py).
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from d2k_agent.app.evaluation import Evaluation, check_workloads, read_candidate
from d2k_agent.app.launching import evaluator_command, open_launcher
from d2k_agent.app.surroundings import Surroundings
from d2k_agent.config import Settings
from d2k_agent.contract import JobKind, Verdict, source_sha256
from d2k_agent.reports.inspect_text import Inspected
from d2k_agent.reports.verdict_data import verdict_data, verdict_of

if TYPE_CHECKING:
    from d2k_agent.catalog import Task
    from d2k_agent.launchers import Progress

DEFAULT_TARGETS = ("b200", "h200")
"""One of Blackwell (sm_100) and one of Hopper (sm_90)."""
MOST_KEPT = 200
VERSIONS_S = 60.0
_PACKAGE = Path(__file__).resolve().parent.parent
_ASK_VERSIONS = """
import json, sys
from importlib.metadata import version
print(json.dumps([sys.version.split()[0], version("torch"), version("triton")]))
"""


def inspect_file(
    around: Surroundings,
    command_line: Settings,
    task_name: str,
    solution: Path,
    targets: Sequence[str],
    labels: Sequence[str],
    progress: Progress,
    fresh: bool = False,
) -> list[Inspected]:
    """The report for each of `targets` (none: DEFAULT_TARGETS), in their order; `fresh` takes none from the cache.

    Needs no GPU, and a GPU that is here or in the settings plays no part. Raises UsageError before anything is started.
    """
    from d2k_agent.catalog import find_task

    settings = dataclasses.replace(around.settings(command_line), target=None, gpu=None, device="cpu")
    task = find_task(task_name)
    workloads = check_workloads(task, labels, JobKind.COMPILE)
    candidate = read_candidate(solution)
    wanted = tuple(dict.fromkeys(targets or DEFAULT_TARGETS))
    cache = ReportCache(around.cache_home / "d2k-agent" / "inspect")
    keys = _keys(around, settings, task, candidate, wanted, workloads)
    kept = {} if fresh else {target: found for target, key in keys.items() if (found := cache.find(key))}
    missing = [target for target in wanted if target not in kept]
    made = _made(around, settings, task, candidate, missing, workloads, progress)
    for target, inspected in made.items():
        if target in keys:
            cache.keep(keys[target], inspected.verdict)
    return [(kept | made)[target] for target in wanted]


@dataclass(frozen=True)
class ReportCache:
    """Verdicts with a compile report, a file each, by a key that says all that they depend on.

    What cannot be read is not there, and a folder that cannot be written keeps nothing: neither is an error.
    """

    folder: Path

    def find(self, key: str) -> Inspected | None:
        """What was kept under `key`; None where nothing was, or nothing that can be read."""
        try:
            data = json.loads(self._path(key).read_text(encoding="utf-8"))
            verdict, made = verdict_of(data["verdict"]), str(data["made"])
        except (OSError, ValueError, TypeError, KeyError):
            return None
        return Inspected(verdict.environment.target, verdict, made)

    def keep(self, key: str, verdict: Verdict) -> None:
        """Keep `verdict`, in place of the oldest where MOST_KEPT are there.

        Left out is one without a report, or with a report that a busy machine may have spoilt.
        """
        report = verdict.compile_report
        if report is None or report.error_kind not in (None, "compile", "launch"):
            return
        made = datetime.now(UTC).isoformat(timespec="seconds")
        path = self._path(key)
        fresh = path.with_suffix(f".{os.getpid()}")
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            fresh.write_text(json.dumps({"made": made, "verdict": verdict_data(verdict)}), encoding="utf-8")
            fresh.replace(path)
            newest_last = sorted(self.folder.glob("*.json"), key=lambda file: file.stat().st_mtime)
            for file in newest_last[:-MOST_KEPT]:
                file.unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"


def _made(
    around: Surroundings,
    settings: Settings,
    task: Task,
    candidate: str,
    targets: Sequence[str],
    workloads: Sequence[str],
    progress: Progress,
) -> dict[str, Inspected]:
    """What one evaluator says for `targets`; none is started where there are none."""
    made: dict[str, Inspected] = {}
    with contextlib.ExitStack() as held:
        launcher = open_launcher(around, settings, progress)
        held.callback(launcher.close)
        for target in targets:
            unsafe = bool(settings.unsafe_no_sandbox)
            evaluation = Evaluation(launcher, task, target=target, device="cpu", unsafe=unsafe)
            progress(f"for {target}")
            made[target] = Inspected(target, evaluation.judge(JobKind.COMPILE, candidate, workloads))
    return made


def _keys(
    around: Surroundings,
    settings: Settings,
    task: Task,
    candidate: str,
    targets: Sequence[str],
    workloads: Sequence[str],
) -> dict[str, str]:
    """The key of each target's report: a digest of source, task, target, workloads, evaluator and versions.

    None of them has one where the evaluator's versions cannot be told.
    """
    from d2k_agent.launchers.archive import build_archive

    versions = _versions(around, settings)
    if versions is None:
        return {}
    evaluator = hashlib.sha256(build_archive(_PACKAGE)).hexdigest()
    common = [source_sha256(candidate), task.bundle().digest, sorted(workloads), evaluator, versions]
    return {target: hashlib.sha256(json.dumps([target, *common]).encode()).hexdigest() for target in targets}


def _versions(around: Surroundings, settings: Settings) -> list[str] | None:
    """Python's, torch's and Triton's where the evaluator will run, asked without importing them."""
    prefix, python = evaluator_command(around, settings)
    try:
        done = subprocess.run(
            [*prefix, python, "-"],
            input=_ASK_VERSIONS.encode(),
            capture_output=True,
            timeout=VERSIONS_S,
            check=True,
            env=around.evaluator_environment(through_prefix=bool(prefix)),
        )
        # What a prefix prints stands before it.
        answer: list[str] = json.loads(done.stdout.strip().rpartition(b"\n")[2])
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return answer
