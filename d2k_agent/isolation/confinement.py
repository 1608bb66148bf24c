"""The whole confinement of one process, in the order in which the measures must come."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path

from d2k_agent.isolation import kernel, landlock, mounts, seccomp

_CLONE_NEWNET = 0x40000000
_CAPSET = {"x86_64": 126, "aarch64": 91}
_CAPABILITY_VERSION_3 = 0x20080522


@dataclass(frozen=True)
class Policy:
    """What a confined process may touch. Paths are subtrees; a single file is a subtree of one.

    `read` may be read and executed, `write` may be changed in any way, `list_only` may be listed but not read,
    `devices` may be opened and spoken to. `proc` opens /proc for reading and the process's own entry for writing,
    which CUDA asks for; without it only what `read` names below /proc can be opened. `proc_of_children` lets the
    processes that it starts write their entries too: for a shell whose commands use CUDA.
    """

    read: tuple[str, ...]
    write: tuple[str, ...]
    list_only: tuple[str, ...] = ()
    devices: tuple[str, ...] = ("/dev/null", "/dev/zero", "/dev/urandom")
    proc: bool = False
    proc_of_children: bool = False


def confine(policy: Policy, other_threads: bool = False) -> tuple[str, ...]:
    """Confine the calling process and everything it will start, for good. Returns the measures that took effect.

    Call it in a process of one thread, in a session of its own, with only the descriptors open that may stay so.
    With `other_threads` there may be more: they stay as they are, and the calling thread with all that it starts is
    confined. For a process in which a profiler's library must run before anything of the candidate's does.
    Network and mount namespaces are taken where the machine allows it; IP sockets are refused in any case.
    Raises OSError that begins with the measure that failed; the process is then half confined and must end.
    """
    if not other_threads:
        _refuse_threads()
    for path in policy.write:
        if not Path(path).exists():
            raise OSError(f"landlock: writable path {path} does not exist; create it first")
    protected = seccomp.ancestors_of_this_process()
    measures = [*_own_network(), *_read_only_mounts(policy), "no_new_privs"]
    kernel.prctl("no_new_privs", kernel.PR_SET_NO_NEW_PRIVS, 1)
    measures += landlock.restrict(_rules(policy))
    measures += _drop_capabilities()
    seccomp.install(protected)
    return (*measures, "seccomp")


def hide_process() -> None:
    """Close this process's memory, environment and descriptors to others of its user, and switch off its core dump.

    Holds until the next exec. Raises OSError.
    """
    kernel.prctl("dumpable", kernel.PR_SET_DUMPABLE, 0)


def show_process() -> None:
    """Undo hide_process in a forked child that has nothing to hide: its own entry in /proc belongs to it again."""
    kernel.prctl("dumpable", kernel.PR_SET_DUMPABLE, 1)


def _refuse_threads() -> None:
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        raise OSError("confine: the process has several threads and the measures bind one; fork first, then confine")


def _own_network() -> list[str]:
    try:
        kernel.unshare("network namespace", _CLONE_NEWNET)
    except OSError:
        return []  # not permitted here: the filter refuses IP sockets all the same
    return ["network_namespace"]


def _read_only_mounts(policy: Policy) -> list[str]:
    protected = mounts.protect_files(policy.write, policy.proc or policy.proc_of_children)
    if policy.proc_of_children and os.access("/proc/sys/kernel/core_pattern", os.W_OK):
        # Root without capabilities still owns /proc/sys, and a core pattern is a root shell.
        raise OSError("proc: /proc/sys would be open for writing; run as another user, or allow mount namespaces")
    return ["read_only_mounts"] if protected else []


def _rules(policy: Policy) -> list[tuple[str, int]]:
    rules = [(path, landlock.READ) for path in policy.read]
    rules += [(path, landlock.WRITE) for path in policy.write]
    rules += [(path, landlock.LIST) for path in policy.list_only]
    rules += [(path, landlock.DEVICE) for path in policy.devices]
    if policy.proc or policy.proc_of_children:
        show_process()
        rules += [("/proc", landlock.READ), ("/proc" if policy.proc_of_children else "/proc/self", landlock.WRITE)]
        os.open("/proc/self", os.O_PATH | os.O_CLOEXEC)  # stays open: keeps the entry that the rule is tied to
    return rules


def _drop_capabilities() -> list[str]:
    kernel.prctl("ambient capabilities", kernel.PR_CAP_AMBIENT, kernel.PR_CAP_AMBIENT_CLEAR_ALL)
    bounding = ["capability_bounds"] if _drop_bounding_set() else []
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    kernel.syscall("capabilities", _CAPSET[kernel.machine()], header, struct.pack("=6I", *[0] * 6))
    return [*bounding, "no_capabilities"]


def _drop_bounding_set() -> bool:
    """Empty the bounding set. False where that is not permitted: no_new_privs then keeps what is in it out of reach."""
    capability = 0
    while True:
        try:
            present = kernel.prctl("bounding set", kernel.PR_CAPBSET_READ, capability)
        except OSError:
            return True  # past the last capability that this kernel knows
        try:
            if present:
                kernel.prctl("bounding set", kernel.PR_CAPBSET_DROP, capability)
        except PermissionError:
            return False
        capability += 1
