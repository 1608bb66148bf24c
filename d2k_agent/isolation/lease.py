"""The lease of a GPU: one measurement at a time, among all processes and users of a machine.

Whoever times takes it, whoever waits says for whom. The system gives it back when a process dies. Containers share it
only where they share the folder.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Sequence

FOLDER = "/tmp"
"""The system's, never TMPDIR's: that differs between users."""
_POLL_S = 0.05
_SETTLE_S = 0.005
_TOLD_EVERY_S = 20.0
_UUID = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]*")


class LeaseRefused(OSError):
    """The lease cannot be had: its file is not what it must be, or the wait took longer than the caller allows."""


@contextlib.contextmanager
def hold(
    uuids: Sequence[str],
    progress: Callable[[str], None],
    limit_s: float | None = None,
    *,
    folder: str = FOLDER,
    told_every_s: float = _TOLD_EVERY_S,
) -> Iterator[float]:
    """Hold the GPUs of these UUIDs; yields the seconds of waiting, which belong to no time limit of a measurement.

    Several are taken in ascending order, so that two who want the same ones never wait for each other. `progress` is
    told of a wait when it begins and every `told_every_s` seconds: silence would look like a hang. `limit_s` bounds
    the wait for all of them together (None: none). Not reentrant. Raises LeaseRefused.
    """
    began = time.monotonic()
    deadline = None if limit_s is None else began + limit_s
    with contextlib.ExitStack() as held:
        for uuid in sorted(set(uuids)):
            held.enter_context(_held(uuid, folder, _Wait(uuid, progress, deadline, told_every_s)))
        yield time.monotonic() - began


class _Wait:
    """The patience with one GPU: tells of itself, and ends at the deadline."""

    def __init__(self, uuid: str, progress: Callable[[str], None], deadline: float | None, told_every_s: float) -> None:
        self._uuid, self._progress, self._deadline = uuid, progress, deadline
        self._every_s, self._next = told_every_s, 0.0

    def step(self, holder: int | None) -> None:
        """Wait a moment for `holder` (None: unknown). Raises LeaseRefused past the deadline."""
        now, by = time.monotonic(), f", held by process {holder}" if holder else ""
        if self._deadline is not None and now >= self._deadline:
            raise LeaseRefused(f"GPU {self._uuid} was not free in time{by}; try again when its other users are done")
        if now >= self._next:
            self._progress(f"waiting for GPU {self._uuid}{by}")
            self._next = now + self._every_s
        time.sleep(_POLL_S)


@contextlib.contextmanager
def _held(uuid: str, folder: str, wait: _Wait) -> Iterator[None]:
    if not _UUID.fullmatch(uuid):
        raise ValueError(f"{uuid!r} is no UUID of a GPU")
    path = os.path.join(folder, f"d2k-gpu-{uuid}.lock")
    handle = _locked(path, wait)
    try:
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        os.ftruncate(handle, len(f"{os.getpid()}\n"))
        yield
    finally:
        os.ftruncate(handle, 0)
        # Said, not left to close(): a child forked meanwhile shares the lock.
        fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


def _locked(path: str, wait: _Wait) -> int:
    """A descriptor of the file at `path`, locked. One that was removed meanwhile (a cleaner of /tmp) is no lease."""
    while True:
        handle = _open(path)
        try:
            while not _lock(handle):
                wait.step(_holder(handle))
            if _same(handle, path):
                locked, handle = handle, -1
                return locked
        finally:
            if handle >= 0:
                os.close(handle)


def _lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _same(handle: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except FileNotFoundError:
        return False


def _open(path: str) -> int:
    """Open the file of a lease, made with rights for all users if it is not there. Raises LeaseRefused."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    why = ""
    for _ in range(100):
        try:
            # Without O_CREAT: where /tmp is protected, that alone refuses another user's file.
            handle = os.open(path, flags)
        except FileNotFoundError:
            why = "it is removed again and again"
            _make(path)
            continue
        except OSError as problem:
            raise LeaseRefused(_refusal(path, os.strerror(problem.errno or errno.EIO))) from None
        found = os.fstat(handle)
        if stat.S_ISREG(found.st_mode) and found.st_nlink <= 1:
            return handle
        os.close(handle)
        if not stat.S_ISREG(found.st_mode):
            raise LeaseRefused(_refusal(path, "it is no regular file"))
        # Its maker holds two names of it for a moment; a stranger's file, linked to here, keeps them.
        why = "it is a second name of some file"
        time.sleep(_SETTLE_S)
    raise LeaseRefused(_refusal(path, why))


def _refusal(path: str, why: str) -> str:
    owner = _sole_remover(path)
    advice = (
        "remove that file"
        if owner is None
        else f"ask user {owner}, whose file it is, or the administrator to remove it"
    )
    return f"the lease of the GPU, {path}, cannot be opened; {advice}, and measure again ({why})"


def _sole_remover(path: str) -> int | None:
    """The user who alone may remove the file, being its owner in a folder like /tmp; None where this one may too."""
    try:
        file, folder = os.lstat(path), os.stat(os.path.dirname(path))
    except OSError:
        return None
    allowed = not folder.st_mode & stat.S_ISVTX or os.geteuid() in (0, file.st_uid, folder.st_uid)
    return None if allowed else file.st_uid


def _make(path: str) -> None:
    """Put the file there whole: at no moment is it there with fewer rights. Another's, made meanwhile, stays."""
    temporary = f"{path}.{secrets.token_hex(4)}"
    try:
        handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(handle, 0o666)  # the umask has no say in it
            with contextlib.suppress(FileExistsError):
                os.link(temporary, path)
        finally:
            os.close(handle)
            os.unlink(temporary)
    except OSError as problem:
        raise LeaseRefused(f"{path} cannot be made ({problem.strerror}); correct that, and measure again") from None


def _holder(handle: int) -> int | None:
    """The process that says it holds the file; anybody may write into it, so only a number is believed."""
    text = os.pread(handle, 16, 0).strip()
    return int(text) if text.isdigit() else None
