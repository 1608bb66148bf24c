"""A task: one folder with six shared files and, for the judge alone, hidden/."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from d2k_agent.catalog.reading import read_object, read_text
from d2k_agent.catalog.resources import schema_dir
from d2k_agent.catalog.schema import problems
from d2k_agent.contract import TaskBundle
from d2k_agent.errors import UsageError

SHARED_FILES = (
    "task_description.md",
    "config.json",
    "get_inputs.py",
    "reference.py",
    "implementation_requirements.yaml",
    "solution.py",
)
HIDDEN_FILES = ("workloads.json", "check.py", "rules.toml")
DEFAULT_CATEGORY = "uncategorised"


@dataclass(frozen=True)
class Workload:
    """A registered workload: its label, and the parameters that get_inputs takes."""

    label: str
    params: Mapping[str, Any]


@dataclass(frozen=True)
class Task:
    """A task as it lies on disk. `guidance` is the folder with its guidance.json, or None where there is none.

    `ranks` are the numbers of ranks that it may be judged on, the usual one first; empty where it is for one.
    """

    slug: str
    title: str
    category: str
    folder: Path
    workloads: tuple[Workload, ...]
    guidance: Path | None = field(default=None)
    ranks: tuple[int, ...] = ()

    def public_files(self) -> dict[str, bytes]:
        """The six shared files, byte for byte. Raises UsageError naming the one that is missing."""
        files = {}
        for name in SHARED_FILES:
            try:
                files[name] = (self.folder / name).read_bytes()
            except OSError as problem:
                raise UsageError(
                    f"task {self.slug}: {self.folder / name} cannot be read ({problem.strerror}): "
                    f"a task has {', '.join(SHARED_FILES)}"
                ) from None
        return files

    def bundle(self) -> TaskBundle:
        """The task as text for an evaluator, hidden files included."""
        public = {name: read_text(self.folder / name) for name in SHARED_FILES}
        hidden = {name: self.folder / "hidden" / name for name in HIDDEN_FILES}
        return TaskBundle(self.slug, public, {name: read_text(path) for name, path in hidden.items() if path.is_file()})

    def guidance_data(self) -> dict[str, Any]:
        """The whole guidance.json. Raises UsageError where the task has none, or one that its schema does not allow."""
        if self.guidance is None:
            raise UsageError(f"task {self.slug} has no guidance: leave the levels out")
        path = self.guidance / "guidance.json"
        guidance = read_object(path)
        wrong = problems(read_object(schema_dir() / "guidance.schema.json"), guidance)
        if wrong:
            raise UsageError(f"{path}: {wrong[0]}")
        return guidance

    def baseline_text(self) -> str | None:
        """The source of the task's baseline, for judging with; None where the task has none. Never staged."""
        path = None if self.guidance is None else self.guidance / "baseline.py"
        return read_text(path) if path is not None and path.is_file() else None


def load_task(folder: Path, guidance: Path | None) -> Task:
    """Read a task's folder. Raises UsageError naming file and line of what is wrong."""
    config = read_object(folder / "config.json")
    hidden = folder / "hidden" / "workloads.json"
    category = read_object(hidden).get("category") if hidden.is_file() else None
    return Task(
        slug=folder.resolve().name,
        title=_title(folder),
        category=category if isinstance(category, str) else DEFAULT_CATEGORY,
        folder=folder,
        workloads=_workloads(config, folder / "config.json"),
        guidance=guidance if guidance and (guidance / "guidance.json").is_file() else None,
        ranks=tuple(config["ranks"]) if isinstance(config.get("ranks"), list) else (),
    )


def _workloads(config: dict[str, Any], path: Path) -> tuple[Workload, ...]:
    entries = config.get("workloads")
    if not isinstance(entries, list) or not entries:
        raise UsageError(f"{path}, line 1: 'workloads' must be a list of at least one workload")
    for position, entry in enumerate(entries):
        if not isinstance(entry, dict) or not isinstance(entry.get("label"), str):
            raise UsageError(f"{path}, line {_line(path, 'workloads')}: workload {position} needs a text 'label'")
    return tuple(Workload(entry["label"], entry) for entry in entries)


def _line(path: Path, key: str) -> int:
    lines = read_text(path).splitlines()
    return next((number for number, line in enumerate(lines, 1) if f'"{key}"' in line), 1)


def _title(folder: Path) -> str:
    """The first heading of the description, else the folder's name."""
    path = folder / "task_description.md"
    lines = read_text(path).splitlines() if path.is_file() else []
    return next((line[2:].strip() for line in lines if line.startswith("# ")), folder.resolve().name)
