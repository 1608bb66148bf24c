"""From what a user types to a task."""

from __future__ import annotations

import os
from pathlib import Path

from d2k_agent.catalog.resources import guidance_dir, tasks_dir
from d2k_agent.catalog.task import Task, load_task
from d2k_agent.errors import UsageError


def list_tasks(tasks: Path | None = None) -> list[Task]:
    """The tasks that ship, by slug. Raises UsageError for one whose files cannot be read."""
    folder = tasks or tasks_dir()
    return [_load(entry) for entry in sorted(folder.iterdir()) if _holds_config(entry)]


def find_task(name_or_path: str | Path) -> Task:
    """A task by slug (`muon`), by its catalog path (`tasks/muon`) or by any folder that holds a config.json.

    A folder that exists wins over a slug only where the text looks like a path. Raises UsageError listing what exists.
    """
    text = str(name_or_path)
    if not text.strip() or "\0" in text:
        raise UsageError(f"{text!r} names no task. {_known()}")
    slug = text.removesuffix("/").removeprefix("tasks/")
    looks_like_path = isinstance(name_or_path, Path) or "/" in text or text.startswith(".")
    if looks_like_path and _holds_config(Path(text)):
        return _load(Path(text))
    shipped = shipped_task(slug)
    if shipped is not None:
        return shipped
    if _holds_config(Path(text)):
        return _load(Path(text))
    if os.path.isdir(text):
        raise UsageError(f"{text} is a folder without a config.json, so it is no task. {_known()}")
    raise UsageError(f"there is no task {text!r}. {_known()}")


def shipped_task(slug: str) -> Task | None:
    """The task of that slug that ships, None where none does: a path, and a folder that lies here, never count."""
    folder = tasks_dir() / slug
    known = slug and "/" not in slug and not slug.startswith(".") and _holds_config(folder)
    return _load(folder) if known else None


def _load(folder: Path) -> Task:
    """Guidance of a task in a checkout, and of a shipped one, lies apart; a task of one's own keeps it in its folder.

    In a checkout the installed package is another than the one around the task: the checkout's own guidance holds.
    """
    resolved = folder.resolve()
    if resolved.parent == tasks_dir().resolve():
        return load_task(folder, guidance_dir() / resolved.name)
    apart = resolved.parent.parent / "guidance" / resolved.name
    in_checkout = resolved.parent.name == "tasks" and os.path.isdir(apart)
    return load_task(folder, apart if in_checkout else folder / "guidance")


def _holds_config(folder: Path) -> bool:
    """Whether the folder has a config.json; no where the path cannot exist (too long, not permitted)."""
    return os.path.isfile(folder / "config.json")


def _known() -> str:
    slugs = ", ".join(entry.name for entry in sorted(tasks_dir().iterdir()) if _holds_config(entry))
    return f"Tasks that ship: {slugs or 'none'}. A folder with a config.json works as well, by its path."
