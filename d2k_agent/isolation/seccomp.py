"""A seccomp filter, assembled by hand: the system calls that a confined process is refused.

Refused: IP, netlink and packet sockets, other processes' memory and signals to our ancestors, new namespaces and
mounts, io_uring (it would go round the filter). Without `unix_connect` also every connection to a named Unix socket,
because Landlock does not see those (a container daemon's socket would be a way out); pairs of sockets stay.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from d2k_agent.isolation import kernel

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_NUMBERS: dict[str, tuple[int, int]] = {
    "add_key": (248, 217),
    "bpf": (321, 280),
    "clone": (56, 220),
    "clone3": (435, 435),
    "connect": (42, 203),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "kcmp": (312, 272),
    "keyctl": (250, 219),
    "kill": (62, 129),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pidfd_open": (434, 434),
    "pivot_root": (155, 41),
    "prlimit64": (302, 261),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "request_key": (249, 218),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "setns": (308, 268),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "tgkill": (234, 131),
    "tkill": (200, 130),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_AIMED_AT_A_PROCESS = frozenset(
    {
        "kill",
        "pidfd_open",
        "rt_sigqueueinfo",
        "rt_tgsigqueueinfo",
        "sched_setaffinity",
        "sched_setattr",
        "sched_setparam",
        "sched_setscheduler",
        "tgkill",
        "tkill",
    }
)
"""Refused where the first argument is a protected process."""
_ALWAYS_REFUSED = (
    _NUMBERS.keys() - _AIMED_AT_A_PROCESS - {"clone", "clone3", "connect", "prlimit64", "socket", "socketpair"}
)
_NEW_NAMESPACES = 0x7E020000
_X32_BIT = 0x40000000

_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_EQUAL, _ANY_BIT, _AT_LEAST = 0x15, 0x45, 0x35
_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_OFFSET_NUMBER, _OFFSET_ARCHITECTURE, _OFFSET_ARGUMENTS = 0, 4, 16

Instruction = tuple[int, int, int, int]
"""One BPF instruction: code, jump if true, jump if false, operand."""


def install(protected: Collection[int] = (), unix_connect: bool = False) -> None:
    """Apply the filter to this process and all it starts. Needs no_new_privs. Raises OSError naming the measure."""
    program = assemble(protected, unix_connect)
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer))
    kernel.syscall("seccomp: install the filter", _SECCOMP[kernel.machine()], 1, 0, header)


def ancestors_of_this_process() -> tuple[int, ...]:
    """The process ids above this one, nearest first, without process 1 (nobody of ours)."""
    found: list[int] = []
    parent = os.getppid()
    while parent > 1:
        found.append(parent)
        status = Path(f"/proc/{parent}/stat").read_bytes()
        parent = int(status.rpartition(b")")[2].split()[1])
    return tuple(found)


def assemble(protected: Collection[int] = (), unix_connect: bool = False, machine: str | None = None) -> bytes:
    """The filter as the kernel and bubblewrap read it: 8 bytes an instruction, for this machine or `machine`.

    `protected` are processes that may not be signalled or slowed down. Raises OSError on an unsupported machine.
    """
    machine = machine or kernel.machine()
    if machine not in _ARCHITECTURES:
        raise OSError(f"seccomp: no filter for {machine}; supported are {', '.join(_ARCHITECTURES)}")
    column = list(_ARCHITECTURES).index(machine)
    program: list[Instruction] = [
        (_LOAD, 0, 0, _OFFSET_ARCHITECTURE),
        (_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _OFFSET_NUMBER),
    ]
    if machine == "x86_64":
        program += [(_AT_LEAST, 0, 1, _X32_BIT), _refuse(errno.ENOSYS)]
    for name, block in _blocks(protected, unix_connect).items():
        program += [(_EQUAL, 0, len(block), _NUMBERS[name][column]), *block]
    program.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def _blocks(protected: Collection[int], unix_connect: bool) -> dict[str, Sequence[Instruction]]:
    blocks: dict[str, Sequence[Instruction]] = {name: [_refuse(errno.EPERM)] for name in sorted(_ALWAYS_REFUSED)}
    blocks["clone3"] = [_refuse(errno.ENOSYS)]  # its flags lie in memory, unseen here; C libraries fall back to clone
    blocks["clone"] = [_argument(0), (_ANY_BIT, 0, 1, _NEW_NAMESPACES), _refuse(errno.EPERM), _allow()]
    blocks["prlimit64"] = [_argument(0), (_EQUAL, 1, 0, 0), _refuse(errno.EPERM), _allow()]
    blocks["socket"] = blocks["socketpair"] = _socket_block(unix_connect)
    if not unix_connect:
        blocks["connect"] = [_refuse(errno.EPERM)]
    for name in sorted(_AIMED_AT_A_PROCESS):
        blocks[name] = _aim_block(_targets(protected) if name == "kill" else protected)
    return blocks


def _socket_block(unix_connect: bool) -> list[Instruction]:
    family = [_argument(0), (_EQUAL, 1, 0, int(socket.AF_UNIX)), _refuse(errno.EAFNOSUPPORT)]
    if unix_connect:
        return [*family, _allow()]
    # A datagram socket reaches any named socket by sendto, without connect.
    kind = [_argument(1), (_AND, 0, 0, 0xF), (_EQUAL, 0, 1, int(socket.SOCK_DGRAM)), _refuse(errno.EPERM)]
    return [*family, *kind, _allow()]


def _aim_block(targets: Collection[int]) -> list[Instruction]:
    block: list[Instruction] = [_argument(0)]
    for target in targets:
        block += [(_EQUAL, 0, 1, target & 0xFFFFFFFF), _refuse(errno.EPERM)]
    return [*block, _allow()]


def _targets(protected: Collection[int]) -> list[int]:
    """What kill(2) may not be given: the processes, their groups, "everybody", and our own group if they are in it."""
    groups = {os.getpgid(process) for process in protected}
    own = [0] if os.getpgid(0) in groups else []
    return [*protected, *(-group for group in sorted(groups)), -1, *own]


def _argument(index: int) -> Instruction:
    return (_LOAD, 0, 0, _OFFSET_ARGUMENTS + 8 * index)  # the low half: both architectures are little-endian


def _refuse(number: int) -> Instruction:
    return (_RETURN, 0, 0, 0x00050000 | number)


def _allow() -> Instruction:
    return (_RETURN, 0, 0, _ALLOW)
