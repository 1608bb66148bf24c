"""Write a run's winner as a bundle that scores it on the machine where it is opened."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from d2k_agent.app.bundle import EVALUATOR, MANIFEST, Subject, bundle_files
from d2k_agent.app.inventory import find_run
from d2k_agent.app.launching import open_launcher
from d2k_agent.app.scoring import subject_of
from d2k_agent.app.surroundings import Surroundings
from d2k_agent.catalog.resources import PACKAGE
from d2k_agent.config import Settings
from d2k_agent.contract.archive import build_archive
from d2k_agent.errors import UsageError

if TYPE_CHECKING:
    from d2k_agent.contract import CompileReport

SCORER_PARTS = (
    "contract",
    "isolation",
    "launchers",
    "reports",
    "config.py",
    "errors.py",
    "app/__init__.py",
    "app/bundle.py",
    "app/bundle_score.py",
    "app/launching.py",
    "app/surroundings.py",
)
"""What starts an evaluator and says what came of it, without a library."""


@dataclass(frozen=True)
class Exported:
    """A bundle that was written. `sha256` is that of its manifest: a score of this bundle says the same one."""

    folder: Path
    subject: Subject
    report: CompileReport
    files: tuple[str, ...]
    sha256: str


def export_run(
    around: Surroundings,
    name: str,
    out: str | None,
    command_line: Settings,
    progress: Callable[[str], None],
    task_name: str | None = None,
) -> Exported:
    """Write the bundle of the run `name` to `out` (None: a folder named after the run, here).

    `task_name` is the task as the user named it, which one that does not ship has to be.

    Raises UsageError, before anything is written, for a run without a winner, for a folder that is not empty, and for
    a winner that does not compile for its target.
    """
    from d2k_agent.records.files import write_atomically, writing

    settings = around.settings(command_line)
    run = find_run(around, settings, name)
    subject = subject_of(run, settings, name, task_name)
    if out == "":
        raise UsageError("--out '' names no folder; name a new one, or leave --out out")
    folder = _new_folder(around.folder / (out or f"{run.path.resolve().name}-bundle"))
    report = _compiled(around, settings, subject, progress)
    files = bundle_files(subject, report, _programs())
    for part in sorted({(folder / name).parent for name in files}):
        with writing(part):
            part.mkdir(parents=True, exist_ok=True)
    for path, data in files.items():
        write_atomically(folder / path, data)
    return Exported(folder, subject, report, tuple(files), hashlib.sha256(files[MANIFEST]).hexdigest())


def _new_folder(path: Path) -> Path:
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UsageError(f"{path} is there already; name a new folder with --out, or remove it")
    return path


def _compiled(
    around: Surroundings, settings: Settings, subject: Subject, progress: Callable[[str], None]
) -> CompileReport:
    """The compiler's report for the target. Raises UsageError where the winner does not compile for it."""
    launcher = open_launcher(around, settings, progress)
    try:
        verdict = launcher.launch(subject.compile_job(bool(settings.unsafe_no_sandbox)))
    finally:
        launcher.close()
    report = verdict.compile_report
    if report is None or not verdict.status.acceptable:
        raise UsageError(
            f"the winner does not compile for {subject.scored.target} ({verdict.message}), so there is nothing to "
            "score there; --target names another GPU"
        )
    return report


def _programs() -> dict[str, bytes]:
    return {
        "score.py": (PACKAGE / "app" / "bundle_entry.py").read_bytes(),
        "scorer.zip": build_archive(PACKAGE, SCORER_PARTS),
        EVALUATOR: build_archive(PACKAGE),
    }
