"""One folder for all temporary files of an evaluator, so that nothing stays of it, whatever ended it.

The owner holds a lock on a file inside for as long as it lives: a folder without that lock is left over and removed by
the next evaluator. One without the file is being made, which takes no hour.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import suppress

PREFIX = "d2k-evaluator-"
_OWNER = "owner"
_ABANDONED_S = 3600.0


class ScratchRoot:
    """A new folder below `parent`, locked by this process until remove() or the end of the process. Raises OSError."""

    def __init__(self, parent: str) -> None:
        self.path = tempfile.mkdtemp(prefix=PREFIX, dir=parent)
        owner = os.path.join(self.path, _OWNER)
        self._lock = os.open(f"{owner}.new", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        os.rename(f"{owner}.new", owner)  # under this name only with the lock: no sweep takes it for left over

    def remove(self) -> None:
        """Remove the folder with all that is in it."""
        _remove(self.path)
        os.close(self._lock)


def sweep(parent: str) -> None:
    """Remove the folders below `parent` that ended evaluators of this user left, so far as the system lets it."""
    try:
        with os.scandir(parent) as found:
            entries = [entry for entry in found if entry.name.startswith(PREFIX)]
    except OSError:  # a folder that may be entered and not listed: nothing to be seen, nothing to be swept
        return
    for root in (entry.path for entry in entries if _own_folder(entry)):
        try:
            lock = os.open(os.path.join(root, _OWNER), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:  # it is being made, or being removed, if that is not long ago
            if _age_s(root) > _ABANDONED_S:
                _remove(root)
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(root)
        except OSError:  # its evaluator lives; or the file system has no locks, so that nobody can tell
            continue
        finally:
            os.close(lock)


def _remove(root: str) -> None:
    """The owner's file goes last: what is left halfway is known as left over."""
    with suppress(OSError), os.scandir(root) as found:
        for entry in [entry for entry in found if entry.name != _OWNER]:
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                os.unlink(entry.path)
    shutil.rmtree(root, ignore_errors=True)


def _age_s(root: str) -> float:
    try:
        return time.time() - os.stat(root, follow_symlinks=False).st_mtime
    except OSError:  # it is gone
        return 0.0


def _own_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_uid == os.getuid()
    except OSError:  # its evaluator removed it in this moment
        return False
