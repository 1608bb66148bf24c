"""The process around one confined command: it inherits every orphan, and ends the whole tree when it is told to.

Started by its own short command line, not imported. It reads a plan (JSON) from `control`, starts the command, and
writes one JSON answer to `report`: returncode, ended (how many processes outlived the command), measures; or error.
When `control` closes, be it because the time is up or because whoever holds the other end was killed, the tree ends.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import struct
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NoReturn

from d2k_agent.isolation import seccomp
from d2k_agent.isolation.confinement import Policy, confine, hide_process, show_process
from d2k_agent.isolation.processes import become_subreaper, end_descendants, end_with_parent


@dataclass(frozen=True)
class Plan:
    """What to start. Exactly one of `policy` and `bubblewrap` confines it; with neither it is not confined at all.

    `bubblewrap` is the command line up to the command itself; `limits` maps names of resource limits to values.
    """

    argv: tuple[str, ...]
    env: dict[str, str]
    folder: str
    policy: Policy | None = None
    bubblewrap: tuple[str, ...] = ()
    limits: dict[str, int] = field(default_factory=dict)

    def encode(self) -> bytes:
        """The plan as `main` reads it from its control descriptor."""
        data = json.dumps(asdict(self)).encode()
        return struct.pack("<I", len(data)) + data


def main(control: int, report: int) -> NoReturn:
    """Run the plan that comes in over `control` and answer over `report`."""
    hide_process()
    become_subreaper()
    os.set_inheritable(control, False)
    os.set_inheritable(report, False)
    answer = _supervise(_read_plan(control), control)
    os.write(report, json.dumps(answer).encode())
    os._exit(0)


def _supervise(plan: Plan, control: int) -> dict[str, object]:
    started, notices = os.pipe()
    status, status_in_child = os.pipe()
    child = os.fork()
    if child == 0:
        _become(plan, notices, status_in_child)
    os.close(notices)
    os.close(status_in_child)
    _release_standard_streams()
    answer: dict[str, object] = {"measures": [], "returncode": None, "ended": 0}
    for line in _read_all(started).splitlines():  # ends when the command has replaced the child
        answer.update(json.loads(line))
    returncode = _wait(child, control)
    if returncode is not None and plan.bubblewrap and b"exit-code" not in _read_all(status):
        answer.setdefault("error", f"bubblewrap ended with status {returncode} before the command began")
    answer.update(returncode=returncode, ended=end_descendants(os.getpid()))
    return answer


def _become(plan: Plan, notices: int, status: int) -> NoReturn:
    """In the child: confine and turn into the command. What goes wrong is told through `notices`."""
    try:
        end_with_parent()
        show_process()
        os.setsid()
        os.umask(0o022)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)  # Python ignores them, and an ignored signal is inherited
        Path("/proc/self/oom_score_adj").write_text("1000")  # short of memory, the command goes first
        _limit_resources(plan.limits)
        os.chdir(plan.folder)
        argv = list(plan.argv)
        measures: tuple[str, ...] = ()
        if plan.policy is not None:
            measures = confine(plan.policy)
        elif plan.bubblewrap:
            argv = _bubblewrap(plan, status)
            measures = ("bubblewrap", "seccomp")
        os.write(notices, json.dumps({"measures": measures}).encode() + b"\n")
        os.execvpe(argv[0], argv, plan.env)
    except OSError as problem:
        os.write(notices, json.dumps({"error": str(problem)}).encode() + b"\n")
    os._exit(127)


def _bubblewrap(plan: Plan, status: int) -> list[str]:
    program, written = os.pipe()
    os.write(written, seccomp.assemble(unix_connect=True))
    os.close(written)
    os.set_inheritable(program, True)
    os.set_inheritable(status, True)
    own = ["--seccomp", str(program), "--json-status-fd", str(status), "--"]
    return [*plan.bubblewrap, *own, *plan.argv]


def _limit_resources(limits: dict[str, int]) -> None:
    for name, value in limits.items():
        kind = getattr(resource, name)
        allowed = resource.getrlimit(kind)[1]
        lowered = value if allowed == resource.RLIM_INFINITY else min(value, allowed)
        resource.setrlimit(kind, (lowered, lowered))


def _wait(child: int, control: int) -> int | None:
    """The command's status as a shell counts it (128 + signal), or None when `control` closed first."""
    ended = os.pidfd_open(child)
    watch = select.poll()
    watch.register(ended, select.POLLIN)
    watch.register(control, select.POLLIN)
    ready = {descriptor for descriptor, _ in watch.poll()}
    if ended not in ready:
        return None
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else 128 - code


def _release_standard_streams() -> None:
    nowhere = os.open("/dev/null", os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)


def _read_plan(control: int) -> Plan:
    (size,) = struct.unpack("<I", _read_exactly(control, 4))
    data = json.loads(_read_exactly(control, size))
    policy = data["policy"]
    if policy is not None:
        lists = {name: tuple(policy[name]) for name in ("read", "write", "list_only", "devices")}
        policy = Policy(**lists, proc=policy["proc"], proc_of_children=policy["proc_of_children"])
    argv, bubblewrap = tuple(data["argv"]), tuple(data["bubblewrap"])
    return Plan(argv, data["env"], data["folder"], policy, bubblewrap, data["limits"])


def _read_exactly(descriptor: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = os.read(descriptor, size - len(data))
        if not part:
            os._exit(0)  # whoever started this process is gone before it began
        data += part
    return data


def _read_all(descriptor: int) -> bytes:
    parts = []
    while part := os.read(descriptor, 1 << 16):
        parts.append(part)
    return b"".join(parts)
