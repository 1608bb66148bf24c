"""Files of one workspace, opened so that no name, link or race leads out of it.

A path is walked one component at a time through open folders, never followed by the kernel. A hard link cannot be
told from a file, so one is read like a file; writing makes a new file and leaves what else was linked as it was.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat

_MOST_LINKS = 40
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class PathError(ValueError):
    """A path that names no file of the workspace that could be used so; the message is for whoever gave the path."""


def read_file(root: str, path: str, limit_bytes: int) -> bytes:
    """The bytes of the regular file `path` below the folder `root`.

    Never waits, whatever lies at the path. Raises PathError, also when the file is larger than `limit_bytes`.
    """
    with _Walk(root, path) as (folder, name):
        try:
            # A pipe without a writer would block the open; NONBLOCK means nothing to a regular file.
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        except OSError as problem:
            raise _explained(path, problem) from None
    try:
        _require_regular(path, os.fstat(descriptor))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(limit_bytes + 1)
    finally:
        os.close(descriptor)
    if len(data) > limit_bytes:
        raise PathError(f"{path}: larger than {limit_bytes} bytes; look at a part of it with bash (head, tail, sed)")
    return data


def write_file(root: str, path: str, data: bytes) -> None:
    """Make `path` below the folder `root` hold exactly `data`, all or nothing, with the folders that it needs.

    An existing file keeps its permissions. Raises PathError.
    """
    with _Walk(root, path, make_folders=True) as (folder, name):
        temporary = f".{secrets.token_hex(8)}.partial"
        try:
            mode = _mode_of_existing(path, folder, name)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(temporary, flags, 0o666 if mode is None else mode, dir_fd=folder)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                    if mode is not None:
                        os.fchmod(file.fileno(), mode)
                os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=folder)
                raise
        except OSError as problem:
            raise _explained(path, problem) from None


class _Walk:
    """The way to the folder of a path, as a context: yields (folder descriptor, last name), links resolved by hand."""

    def __init__(self, root: str, path: str, make_folders: bool = False) -> None:
        self._root = root
        self._path = path
        self._make_folders = make_folders
        self._folders: list[int] = []

    def __enter__(self) -> tuple[int, str]:
        try:
            self._folders = [os.open(self._root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)]
            name = self._walk()
            return self._folders[-1], name
        except OSError as problem:
            self.__exit__()
            raise _explained(self._path, problem) from None
        except PathError:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        while self._folders:
            os.close(self._folders.pop())

    def _walk(self) -> str:
        parts = _parts(self._root, self._path, self._path)
        links = 0
        while parts:
            part = parts.pop(0)
            if part == "..":
                self._leave()
                continue
            target = _link_target(part, self._folders[-1])
            if target is not None:
                links += 1
                if links > _MOST_LINKS:
                    raise PathError(f"{self._path}: symbolic links that lead round in a circle")
                if target.startswith("/"):
                    self._return_to_root()
                parts = [*_parts(self._root, target, self._path), *parts]
            elif parts:
                self._folders.append(self._enter(part))
            else:
                return part
        raise PathError(f"{self._path}: a folder, not a file; list it with bash (ls)")

    def _enter(self, part: str) -> int:
        try:
            return os.open(part, _FOLDER, dir_fd=self._folders[-1])
        except FileNotFoundError:
            if not self._make_folders:
                raise
        os.mkdir(part, dir_fd=self._folders[-1])
        return os.open(part, _FOLDER, dir_fd=self._folders[-1])

    def _leave(self) -> None:
        if len(self._folders) == 1:
            raise _outside(self._path)
        os.close(self._folders.pop())

    def _return_to_root(self) -> None:
        while len(self._folders) > 1:
            os.close(self._folders.pop())


def _parts(root: str, path: str, given: str) -> list[str]:
    """The components of `path` relative to `root`; `given` is the path to name in a message."""
    if "\0" in path:
        raise PathError("a path cannot hold a NUL byte")
    if path == "~" or path.startswith("~/"):
        raise PathError(f"{given}: there is no home folder here; paths are relative to the workspace")
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        raise PathError("a path cannot hold half of a surrogate pair") from None
    if path.startswith("/"):
        if path != root and not path.startswith(root.rstrip("/") + "/"):
            raise _outside(given)
        path = path[len(root) :]
    return [part for part in path.split("/") if part not in ("", ".")]


def _link_target(part: str, folder: int) -> str | None:
    try:
        return os.readlink(part, dir_fd=folder)
    except OSError:
        return None  # no link, or not there: whoever opens it next says so


def _mode_of_existing(path: str, folder: int, name: str) -> int | None:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    _require_regular(path, status)
    return stat.S_IMODE(status.st_mode) & 0o777


def _require_regular(path: str, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise PathError(f"{path}: a folder, not a file; list it with bash (ls)")
    if not stat.S_ISREG(status.st_mode):
        raise PathError(f"{path}: not a regular file (a pipe, socket or device)")


def _outside(path: str) -> PathError:
    return PathError(f"{path}: outside the workspace; only files in it can be used, by a relative path")


def _explained(path: str, problem: OSError) -> PathError:
    return PathError(f"{path}: {problem.strerror or problem}")
