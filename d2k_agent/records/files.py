"""Files written so that a reader never sees half of one, and a full disk told as a sentence.

Covers: atomic replacement, and the translation of write errors. Does not cover: append-only logs (log.py).
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from d2k_agent.errors import MachineError

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Translate a failed write to `path` into a MachineError that says what to do next."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise MachineError(f"no space is left to write {path}; free some (or raise the quota)") from error
        raise MachineError(f"{path} cannot be written ({error.strerror}); correct that") from error


def write_atomically(path: Path, data: bytes) -> None:
    """Replace `path` by `data`: after a crash at any moment the file is the old one or the new one, whole.

    Others may read it as far as the umask lets them. Raises MachineError where the disk refuses.
    """
    with writing(path):
        temporary = path.parent / f".{path.name}.{secrets.token_hex(4)}"
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:  # Ctrl-C too must not leave half a file behind
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
