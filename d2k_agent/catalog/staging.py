"""What an agent sees at the start: the six shared files and the guidance of its levels, nothing else."""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Collection
from pathlib import Path

from d2k_agent.catalog.levels import slice_guidance
from d2k_agent.catalog.task import Task
from d2k_agent.errors import D2KError, MachineError, UsageError

GUIDANCE_FILE = "guidance.json"
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def staged_files(task: Task, levels: Collection[str]) -> dict[str, bytes]:
    """Name and content of every file that an agent with these levels is given."""
    files = task.public_files()
    if levels:
        sliced = slice_guidance(task.guidance_data(), levels)
        files[GUIDANCE_FILE] = (json.dumps(sliced, indent=2, ensure_ascii=False) + "\n").encode()
    return files


def stage(task: Task, levels: Collection[str], out: Path) -> None:
    """Write the staged files to `out`, a folder that is empty or does not exist yet: all of them or none.

    Raises UsageError where `out` is in use or cannot be written, MachineError where the disk is full.
    """
    files = staged_files(task, levels)
    target = Path(os.path.abspath(out))
    try:
        if target.is_dir() and any(target.iterdir()):
            raise UsageError(f"{out} is not empty: name a new folder, or empty this one")
        if target.exists() and not target.is_dir():
            raise UsageError(f"{out} is a file: name a folder")
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            _write(files, fresh)
            _move(fresh, target)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    except OSError as problem:
        raise _translated(problem, out) from None


def _write(files: dict[str, bytes], folder: Path) -> None:
    for name, content in files.items():
        with (folder / name).open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())


def _move(fresh: Path, target: Path) -> None:
    """Give the finished files their name. A folder that exists keeps its identity: it may be somebody's current one."""
    if not target.exists():
        fresh.chmod(0o755)
        fresh.rename(target)
        return
    for file in sorted(fresh.iterdir()):
        file.replace(target / file.name)


def _translated(problem: OSError, out: Path) -> D2KError:
    if problem.errno in NO_ROOM:
        return MachineError(f"no room to write {out} ({problem.strerror}): free some space; nothing was left behind")
    return UsageError(f"{out} cannot be written ({problem.strerror}): name a folder in a place where you may write")
