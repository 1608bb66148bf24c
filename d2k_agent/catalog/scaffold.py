"""A new task to begin with: a folder that is complete but for what only its author can write."""

from __future__ import annotations

import re
from pathlib import Path

from d2k_agent.catalog.reading import read_text
from d2k_agent.catalog.resources import templates_dir
from d2k_agent.errors import UsageError

UNWRITTEN = "To be written"
"""How the template marks what is left to the author; `tasks check` fails where it is still there."""
_NAME = "my_task"
_SLUG = re.compile(r"[a-z][a-z0-9_]*")


def new_task(slug: str, out: Path) -> list[str]:
    """Write the folder `out` of a task called `slug`, and return the names of its files.

    Raises UsageError where the slug is none or `out` exists or cannot be written.
    """
    if not _SLUG.fullmatch(slug):
        raise UsageError(f"{slug!r} is no name for a task: use lower case letters, digits and _, a letter first")
    if out.exists():
        raise UsageError(f"{out} exists: name another folder with --out, or remove it")
    template = templates_dir() / "task"
    names = sorted(path.relative_to(template).as_posix() for path in template.rglob("*") if path.is_file())
    try:
        for name in names:
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            (out / name).write_text(read_text(template / name).replace(_NAME, slug), encoding="utf-8")
    except OSError as problem:
        raise UsageError(f"{out} cannot be written ({problem.strerror}): name a folder where you may write") from None
    return names
