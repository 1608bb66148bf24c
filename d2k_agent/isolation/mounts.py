"""A mount namespace in which everything but a few folders is read-only.

Landlock does not cover chmod, chown, extended attributes and time stamps; a read-only mount does. Needs
CAP_SYS_ADMIN, so it is taken where it is to be had and is never the only wall.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from d2k_agent.isolation import kernel

if TYPE_CHECKING:
    from collections.abc import Iterable

_CLONE_NEWNS = 0x00020000
_MS_BIND, _MS_REC, _MS_SLAVE = 4096, 16384, 1 << 19
_MOUNT = {"x86_64": 165, "aarch64": 40}
_MOUNT_SETATTR = 442
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_MOUNT_ATTR_RDONLY = 1


def protect_files(writable: Iterable[str]) -> bool:
    """Make all mounts read-only for this process, except those at and below `writable`. False if not permitted.

    Descriptors that are open already keep their access; the working folder is entered again.
    """
    paths = [os.path.realpath(path) for path in writable]
    working_folder = Path.cwd()
    try:
        kernel.unshare("mount namespace", _CLONE_NEWNS)
        _mount(None, "/", _MS_REC | _MS_SLAVE)
        for path in paths:
            if not os.path.ismount(path):
                _mount(path, path, _MS_BIND | _MS_REC)
        _set_read_only("/", True)
        for path in paths:
            _set_read_only(path, False)
    except PermissionError:
        return False
    os.chdir(working_folder)
    return True


def _mount(source: str | None, target: str, flags: int) -> None:
    encoded = None if source is None else os.fsencode(source)
    kernel.syscall(f"mount {target}", _MOUNT[kernel.machine()], encoded, os.fsencode(target), None, flags, None)


def _set_read_only(path: str, read_only: bool) -> None:
    set_bits, clear_bits = (_MOUNT_ATTR_RDONLY, 0) if read_only else (0, _MOUNT_ATTR_RDONLY)
    attributes = struct.pack("=QQQQ", set_bits, clear_bits, 0, 0)
    arguments = (_AT_FDCWD, os.fsencode(path), _AT_RECURSIVE, attributes, len(attributes))
    kernel.syscall(f"mount attributes of {path}", _MOUNT_SETATTR, *arguments)
