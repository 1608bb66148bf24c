"""Paths as a person reads them, and as a shell takes them."""

from __future__ import annotations

import shlex
from pathlib import Path


def nearby(path: Path, folder: Path) -> Path:
    """`path` as seen from `folder`: relative where it lies below, else as it is."""
    return path.relative_to(folder) if path != folder and path.is_relative_to(folder) else path


def command(*words: str | Path) -> str:
    """A line that calls d2k-agent with `words`, quoted for a shell."""
    return shlex.join(["d2k-agent", *map(str, words)])
