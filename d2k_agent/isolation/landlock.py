"""Landlock: an irrevocable allow-list of files for this process and its children, with what newer kernels add.

Rules are subtrees; there is no "except". Landlock never hides metadata: stat works on what cannot be opened.
"""

from __future__ import annotations

import os
import stat
import struct
from typing import TYPE_CHECKING

from d2k_agent.isolation import kernel

if TYPE_CHECKING:
    from collections.abc import Iterable

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_MAKE_CHAR, _MAKE_BLOCK = 64, 2048
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_RIGHTS_OF_ABI = {1: 13, 2: 14, 3: 15, 4: 15}
"""How many of the file rights, counted from bit 0, a kernel of this ABI knows; 16 from ABI 5 on."""

READ = _EXECUTE | _READ_FILE | _READ_DIR
LIST = _READ_DIR
DEVICE = _WRITE_FILE | _READ_FILE | _IOCTL_DEV
WRITE = ((1 << 15) - 1) & ~(_MAKE_CHAR | _MAKE_BLOCK)


def landlock_abi() -> int:
    """The kernel's Landlock version, 0 where there is none or it is switched off."""
    try:
        return kernel.syscall("landlock", kernel.LANDLOCK_CREATE_RULESET, None, 0, 1)
    except OSError:
        return 0


def restrict(rules: Iterable[tuple[str, int]]) -> tuple[str, ...]:
    """Allow only `rules` (path, rights) from now on, and return the names of what the kernel enforces.

    A path that does not exist allows nothing and is passed over. Needs no_new_privs to be set.
    Raises OSError naming the rule that failed.
    """
    abi = landlock_abi()
    if abi < 1:
        raise OSError("landlock: not available; it needs Linux 5.13 or newer with landlock among its security modules")
    handled = (1 << _RIGHTS_OF_ABI.get(abi, 16)) - 1
    ruleset = _create(abi, handled)
    try:
        for path, rights in rules:
            _allow(ruleset, path, rights & handled)
        kernel.syscall("landlock: restrict_self", kernel.LANDLOCK_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    return ("landlock.files", *(("landlock.tcp",) if abi >= 4 else ()), *(("landlock.signals",) if abi >= 6 else ()))


def _create(abi: int, handled: int) -> int:
    tcp_bind_and_connect = 3 if abi >= 4 else 0
    abstract_sockets_and_signals = 3 if abi >= 6 else 0
    attributes = struct.pack("=QQQ", handled, tcp_bind_and_connect, abstract_sockets_and_signals)
    attributes = attributes[: 24 if abi >= 6 else 16 if abi >= 4 else 8]
    return kernel.syscall("landlock: create_ruleset", kernel.LANDLOCK_CREATE_RULESET, attributes, len(attributes), 0)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        target = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        if not stat.S_ISDIR(os.fstat(target).st_mode):
            rights &= _FILE_RIGHTS
        if rights:
            rule = struct.pack("=Qi", rights, target)
            kernel.syscall(f"landlock: rule for {path}", kernel.LANDLOCK_ADD_RULE, ruleset, 1, rule, 0)
    finally:
        os.close(target)
