"""The filter's program, executed by a small interpreter: the same answers on both architectures."""

from __future__ import annotations

import errno
import struct

import pytest

from d2k_agent.isolation.seccomp import assemble

ALLOWED = 0x7FFF0000
KILLED = 0x80000000
REFUSED = 0x00050000
AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
NUMBERS = {
    "x86_64": {"read": 0, "socket": 41, "connect": 42, "clone": 56, "kill": 62, "ptrace": 101, "prlimit64": 302},
    "aarch64": {"read": 63, "socket": 198, "connect": 203, "clone": 220, "kill": 129, "ptrace": 117, "prlimit64": 261},
}
PROTECTED = 12345


def verdict(program: bytes, architecture: int, number: int, *arguments: int) -> int:
    """What the kernel would do with one system call."""
    words = [argument & 0xFFFFFFFFFFFFFFFF for argument in (*arguments, *[0] * 6)[:6]]
    data = struct.pack("<IIQ6Q", number, architecture, 0, *words)
    instructions = list(struct.iter_unpack("<HBBI", program))
    at = accumulator = 0
    while True:
        code, if_true, if_false, operand = instructions[at]
        at += 1
        if code == 0x06:
            return int(operand)
        if code == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, operand)
        elif code == 0x54:
            accumulator &= operand
        else:
            holds = {0x15: accumulator == operand, 0x35: accumulator >= operand, 0x45: bool(accumulator & operand)}[
                code
            ]
            at += if_true if holds else if_false


@pytest.mark.parametrize("machine", list(AUDIT))
@pytest.mark.parametrize(
    ("call", "arguments", "expected"),
    [
        ("read", (0,), ALLOWED),
        ("ptrace", (0,), REFUSED | errno.EPERM),
        ("socket", (1, 1), ALLOWED),
        ("socket", (1, 1 | 0o2000000), ALLOWED),
        ("socket", (1, 2 | 0o2000000), REFUSED | errno.EPERM),
        ("socket", (2, 1), REFUSED | errno.EAFNOSUPPORT),
        ("socket", (10, 2), REFUSED | errno.EAFNOSUPPORT),
        ("socket", (16, 3), REFUSED | errno.EAFNOSUPPORT),
        ("connect", (3,), REFUSED | errno.EPERM),
        ("clone", (17,), ALLOWED),
        ("clone", (0x10000000 | 17,), REFUSED | errno.EPERM),
        ("kill", (1,), ALLOWED),
        ("prlimit64", (0,), ALLOWED),
        ("prlimit64", (PROTECTED,), REFUSED | errno.EPERM),
    ],
)
def test_system_calls(machine: str, call: str, arguments: tuple[int, ...], expected: int) -> None:
    program = assemble(machine=machine)
    assert verdict(program, AUDIT[machine], NUMBERS[machine][call], *arguments) == expected


def test_a_foreign_architecture_is_killed_and_the_x32_interface_refused() -> None:
    program = assemble(machine="x86_64")
    assert verdict(program, 0x40000003, 1) == KILLED
    assert verdict(program, AUDIT["x86_64"], 0x40000000 | 41, 2, 1) == REFUSED | errno.ENOSYS


def test_named_sockets_may_be_allowed_where_none_can_be_seen() -> None:
    program = assemble(unix_connect=True, machine="x86_64")
    assert verdict(program, AUDIT["x86_64"], 42, 3) == ALLOWED
    assert verdict(program, AUDIT["x86_64"], 41, 1, 2) == ALLOWED
    assert verdict(program, AUDIT["x86_64"], 41, 2, 1) == REFUSED | errno.EAFNOSUPPORT


def test_an_unsupported_machine_is_named() -> None:
    with pytest.raises(OSError, match="no filter for riscv64"):
        assemble(machine="riscv64")
