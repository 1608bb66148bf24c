"""The tools of one run: what the model is told of them, and carrying out its calls."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from d2k_agent.errors import UsageError
from d2k_agent.isolation import gpu_devices
from d2k_agent.records import QUEUED_S
from d2k_agent.toolbox.calls import HostAnswer, ToolCall, ToolResult, ToolStatus
from d2k_agent.toolbox.inside.workspace_files import read_file
from d2k_agent.toolbox.portable import PortableText, decoded, readable, shortened
from d2k_agent.toolbox.schema import ArgumentError, checked_arguments

if TYPE_CHECKING:
    from collections.abc import Mapping

    from d2k_agent.sandbox import Captured, Completed, Sandbox
    from d2k_agent.toolbox.calls import HostTool
    from d2k_agent.toolbox.spec import ToolSpec

_PACKAGE = Path(__file__).resolve().parents[1]
_LIBRARY = _PACKAGE / "toolbox" / "inside"
_MOST_BYTES = 16 << 20


class Toolbox:
    """Carries out tool calls; what a model does wrong is a result with status "error", never an exception."""

    def __init__(
        self,
        specs: Mapping[str, ToolSpec],
        sandbox: Sandbox,
        workspace: Path,
        host: Mapping[str, HostTool],
        roots: Mapping[str, str],
    ) -> None:
        """`host` holds what carries out the tools of that kind, `roots` the folders to rename in texts.

        Raises UsageError for a host tool that nothing carries out.
        """
        missing = sorted(name for name, spec in specs.items() if spec.where == "host" and name not in host)
        if missing:
            raise UsageError(
                f"tool {missing[0]!r} runs on the host, but nothing there carries it out; remove its folder"
            )
        self._specs = dict(sorted(specs.items()))
        self._sandbox = sandbox
        self._host = dict(host)
        self._workspace = workspace
        # The environment of a command names folders of this package, and a message of a tool may.
        self._portable = PortableText({**roots, str(_PACKAGE): "<d2k>", str(workspace.resolve()): "/workspace"})

    def schemas(self) -> list[dict[str, Any]]:
        """The tools as model interfaces of OpenAI's kind take them, always in the same order."""
        return [spec.schema() for spec in self._specs.values()]

    def file_before(self, call: ToolCall) -> str | None:
        """The SHA-256 of the file that `call` would change now; None for calls that can be made twice."""
        spec = self._specs.get(call.name)
        if spec is None or spec.changes_argument is None:
            return None
        try:
            return self._digest(self._arguments(spec, call.arguments)[spec.changes_argument])
        except ValueError:  # of the arguments or the path: the call fails in the same way
            return None

    def call(self, call: ToolCall, file_before: str | None = None) -> ToolResult:
        """Carry out one call. Raises only for a broken machine (MachineError).

        `file_before` is what file_before() said before the call was made first: where the file is another one by now,
        the call was cut off after its change, and only what comes after that is done.
        """
        began = time.monotonic()
        spec = self._specs.get(call.name)
        if spec is None:
            answer = HostAnswer("error", f"there is no tool {call.name!r}; there is {', '.join(self._specs)}")
        else:
            try:
                arguments = self._arguments(spec, call.arguments)
                done = self._done_before(spec, arguments, file_before)
                answer = self._followed(spec, arguments, done or self._carry_out(spec, arguments))
            except ArgumentError as problem:
                answer = HostAnswer("error", f"{call.name}: {problem}")
        limit = self._output_chars(spec) if spec else 1000
        text = shortened(self._portable.outward(readable(answer.text)), limit)
        return ToolResult(call.id, call.name, answer.status, text, time.monotonic() - began, answer.data)

    def _arguments(self, spec: ToolSpec, given: Mapping[str, Any] | str) -> dict[str, Any]:
        arguments: object = given
        if isinstance(given, str):
            try:
                arguments = json.loads(given) if given.strip() else {}
            except ValueError as problem:
                raise ArgumentError(f"the arguments are not valid JSON ({problem})") from None
        checked = checked_arguments(spec.parameters, arguments)
        for name in spec.path_arguments:
            if isinstance(checked.get(name), str):
                checked[name] = self._portable.inward(checked[name])
        return checked

    def _done_before(self, spec: ToolSpec, arguments: dict[str, Any], file_before: str | None) -> HostAnswer | None:
        if spec.changes_argument is None or file_before is None:
            return None
        path = arguments[spec.changes_argument]
        with suppress(ValueError):  # a file that is gone, or is none any more, is for the tool to refuse
            if self._digest(path) != file_before:
                return HostAnswer("ok", f"{spec.name} of {path}: done before the run was interrupted")
        return None

    def _digest(self, path: str) -> str:
        return hashlib.sha256(read_file(str(self._workspace), path, _MOST_BYTES)).hexdigest()

    def _followed(self, spec: ToolSpec, arguments: dict[str, Any], answer: HostAnswer) -> HostAnswer:
        """The answer, and what the tool says that the call asked for to come next."""
        if spec.then_argument is None or not arguments.get(spec.then_argument) or answer.status != "ok":
            return answer
        then = self._specs.get(spec.then_argument)
        if then is None:
            return HostAnswer(
                "ok", f"{answer.text}\n\n[there is no tool {spec.then_argument} in this run]", answer.data
            )
        more = self._carry_out(then, {"path": arguments["path"]})
        return HostAnswer("ok", f"{answer.text}\n\n[{then.name}]\n{more.text}", answer.data)

    def _output_chars(self, spec: ToolSpec) -> int:
        then = self._specs.get(spec.then_argument or "")
        return spec.output_chars + (then.output_chars if then else 0)

    def _carry_out(self, spec: ToolSpec, arguments: dict[str, Any]) -> HostAnswer:
        if spec.executable is None:
            return self._host[spec.name](arguments)
        gpu = spec.gpu_argument is not None and bool(arguments.get(spec.gpu_argument))
        if gpu and not gpu_devices():
            return HostAnswer("error", f"this machine has no GPU; call again without {spec.gpu_argument}")
        limit_s = spec.limit_s
        if spec.limit_argument is not None and spec.limit_argument in arguments:
            limit_s = min(limit_s, float(arguments[spec.limit_argument]))
        completed = self._sandbox.run(
            _command(spec.executable),
            stdin=json.dumps(arguments).encode(),
            limit_s=limit_s,
            output_bytes=spec.output_chars,
            env={"D2K_TOOL_LIBRARY": str(_LIBRARY)},
            readable=(spec.executable.parent, _LIBRARY),
            gpu=gpu,
        )
        return _answer(completed, limit_s, spec.output_chars)


def _command(executable: Path) -> list[str]:
    """How a tool's program is started: Python programs by our interpreter, cut off from the workspace's modules."""
    with executable.open("rb") as file:
        first_line = file.readline(200)
    interpreter = [sys.executable, "-I"] if first_line.startswith(b"#!") and b"python" in first_line else []
    return [*interpreter, str(executable)]


def _answer(completed: Completed, limit_s: float, output_chars: int) -> HostAnswer:
    stdout, stderr = _shares(completed, output_chars - 200)
    parts = [decoded(stdout)]
    if stderr.head or stderr.tail:
        parts.append(f"[standard error]\n{decoded(stderr)}")
    status: ToolStatus = "ok" if completed.returncode == 0 else "error"
    if completed.timed_out:
        status = "timed_out"
        parts.append(f"[timed out after {limit_s:g} s; the command and everything it started were ended]")
    elif completed.returncode != 0:
        parts.append(f"[exit status {completed.returncode}]")
    text = "\n".join(part.removesuffix("\n") for part in parts if part)
    data: dict[str, Any] = {"exit_status": completed.returncode, "ended_processes": completed.ended_processes}
    if completed.queued_s:
        data[QUEUED_S] = round(completed.queued_s, 3)
    return HostAnswer(status, text or "[no output]", data)


def _shares(completed: Completed, size: int) -> tuple[Captured, Captured]:
    """Both streams within `size` bytes; standard error takes a quarter, or what the other leaves it."""
    out, err = (len(stream.head) + len(stream.tail) for stream in (completed.stdout, completed.stderr))
    for_err = min(err, max(size // 4, size - out))
    return completed.stdout.limited(size - for_err), completed.stderr.limited(for_err)
