"""System calls that Python's os module does not offer, as functions that raise OSError naming what failed."""

from __future__ import annotations

import ctypes
import functools
import os

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_CAPBSET_READ = 23
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4

LANDLOCK_CREATE_RULESET = 444
LANDLOCK_ADD_RULE = 445
LANDLOCK_RESTRICT_SELF = 446
"""These three have the same number on every architecture."""


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def machine() -> str:
    """The architecture whose system call numbers apply: `x86_64` or `aarch64`, else whatever the kernel calls it."""
    return os.uname().machine


def syscall(measure: str, number: int, *arguments: object) -> int:
    """Make a system call; plain integers are passed as C longs. Raises OSError that begins with `measure`."""
    converted = [ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments]
    result = int(_libc().syscall(ctypes.c_long(number), *converted))
    if result < 0:
        raise _failure(measure)
    return result


def prctl(measure: str, option: int, *arguments: int) -> int:
    """Call prctl(2) with up to four more arguments. Raises OSError that begins with `measure`."""
    padded = [ctypes.c_ulong(argument) for argument in (*arguments, 0, 0, 0, 0)[:4]]
    result = int(_libc().prctl(option, *padded))
    if result < 0:
        raise _failure(measure)
    return result


def unshare(measure: str, flags: int) -> None:
    """Leave the namespaces named by `flags`. Raises OSError that begins with `measure`."""
    if _libc().unshare(flags) < 0:
        raise _failure(measure)


def _failure(measure: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{measure}: {os.strerror(number)}")
