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
_SYSTEM_IN_PROC = (
    "/proc/sys",
    "/proc/sysrq-trigger",
    "/proc/irq",
    "/proc/bus",
    "/proc/fs",
    "/proc/acpi",
    "/proc/driver",
)


def protect_files(writable: Iterable[str], proc: bool = False) -> bool:
    """Make all mounts read-only for this process, except those at and below `writable`. False if not permitted.

    With `proc` the processes' entries in /proc stay writable, and what is the system's there does not. Descriptors
    that are open already keep their access; the working folder is entered again.
    """
    paths = [os.path.realpath(path) for path in writable]
    system = [path for path in _SYSTEM_IN_PROC if proc and Path(path).exists()]
    working_folder = Path.cwd()
    try:
        kernel.unshare("mount namespace", _CLONE_NEWNS)
        _mount(None, "/", _MS_REC | _MS_SLAVE)
        for path in (*paths, *system):
            if not os.path.ismount(path):
                _mount(path, path, _MS_BIND | _MS_REC)
        _set_read_only("/", True)
        for path in paths:
            _set_read_only(path, False)
        if proc:
            _set_read_only("/proc", False, below=False)
    except PermissionError:
        return False
    os.chdir(working_folder)
    return True


def _mount(source: str | None, target: str, flags: int) -> None:
    encoded = None if source is None else os.fsencode(source)
    kernel.syscall(f"mount {target}", _MOUNT[kernel.machine()], encoded, os.fsencode(target), None, flags, None)


def _set_read_only(path: str, read_only: bool, below: bool = True) -> None:
    set_bits, clear_bits = (_MOUNT_ATTR_RDONLY, 0) if read_only else (0, _MOUNT_ATTR_RDONLY)
    attributes = struct.pack("=QQQQ", set_bits, clear_bits, 0, 0)
    arguments = (_AT_FDCWD, os.fsencode(path), _AT_RECURSIVE if below else 0, attributes, len(attributes))
    kernel.syscall(f"mount attributes of {path}", _MOUNT_SETATTR, *arguments)
