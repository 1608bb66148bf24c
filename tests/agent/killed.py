"""A run in a process of its own that can be killed: started by fork from a process that has imported everything."""

from __future__ import annotations

import multiprocessing
import multiprocessing.process
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from d2k_agent.models import ScriptedModel
from d2k_agent.records import RunFolder
from d2k_agent.toolbox import HostAnswer
from tests.agent.scene import Counted, call, drive, hand_in, reply, request_bytes, slowly, toolbox, tools_of

_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload([__name__])

PATIENCE_S = 60
SCRIPT: list[Any] = [
    "Let me think.",
    reply(call("read", path="solution.py"), call("read", path="task_description.md")),
    hand_in("# wrong\n"),
    *[hand_in(f"# speedup {speed}\n") for speed in (1.5, 4.0, 2.0)],
    reply(call("compile"), call("bash", command="ls"), call("nothing")),
    "I am stuck.",
    reply(*[call("bash", command=f"echo {number}") for number in range(4)]),
    *[hand_in(f"# speedup {speed}\n") for speed in (4.0, 3.0)],
]


def start(run: Path, target: Callable[[Path], None]) -> multiprocessing.process.BaseProcess:
    """Run `target` on the run folder in another process."""
    process = _PROCESSES.Process(target=target, args=(run,))
    process.start()
    return process


def wait_for(condition: Callable[[], Any]) -> None:
    """Until `condition` is true; an error when it never is."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def drive_slowly(path: Path) -> None:
    """The script above with a model and tools that take a while, each request being noted in requests/."""
    run = RunFolder(path)
    script = ScriptedModel(SCRIPT)
    requests = path.parent / "requests"

    def policy(messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]) -> Any:
        requests.mkdir(exist_ok=True)
        name = f"{len(messages):04d}-{len(list(requests.iterdir())):04d}"
        # Whole or not at all: a kill may come while it is written.
        written = path.parent / "request"
        written.write_bytes(request_bytes(messages, tools))
        written.replace(requests / name)
        slow({})
        return script.complete(messages, tools).message

    def nothing(arguments: Mapping[str, Any]) -> HostAnswer:
        return HostAnswer("ok", "nothing")

    slow = slowly(nothing, 0.01)
    tools = tools_of(run)
    names = ("read", "write", "bash", "submit", "compile")
    slow_tools = {name: slowly(tools[name], 0.01) for name in names}
    drive(run, Counted(ScriptedModel(policy)), toolbox(run, **slow_tools))


def drive_into_a_hanging_submit(path: Path) -> None:
    """Two turns; the second submission takes effect, then hangs."""
    run = RunFolder(path)
    submit = tools_of(run)["submit"]

    def hanging(arguments: Mapping[str, Any]) -> HostAnswer:
        answer = submit(arguments)
        with (run.workspace / "effects.txt").open("a") as file:
            file.write("submitted\n")
        if len(effects(run)) == 2:
            slowly(submit, 600)(arguments)
        return answer

    drive(run, ScriptedModel(TWO_SUBMISSIONS), toolbox(run, submit=hanging))


TWO_SUBMISSIONS = [
    hand_in("# speedup 2\n"),
    reply(call("bash", command="ls"), call("submit"), call("bash", command="x")),
]


def effects(run: RunFolder) -> list[str]:
    """How often the tool above was really executed."""
    path = run.workspace / "effects.txt"
    return path.read_text().splitlines() if path.exists() else []
