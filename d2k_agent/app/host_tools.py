"""submit, compile and profile as the agent's tools: a file of the workspace becomes a job, its verdict an answer."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from d2k_agent.app.evaluation import MOST_CANDIDATE_BYTES, Evaluation, candidate_text
from d2k_agent.contract import JobKind
from d2k_agent.errors import UsageError
from d2k_agent.reports.verdict_text import answer_text

if TYPE_CHECKING:
    from d2k_agent.toolbox import HostAnswer, HostTool

SOLUTION = "solution.py"
KINDS = {"submit": JobKind.EVALUATE, "compile": JobKind.COMPILE, "profile": JobKind.PROFILE}


def host_tools(evaluation: Evaluation, workspace: Path) -> dict[str, HostTool]:
    """The tools that the host carries out."""
    from d2k_agent.agent import submission_data
    from d2k_agent.toolbox import HostAnswer

    def tool(kind: JobKind) -> HostTool:
        def call(arguments: Mapping[str, Any]) -> HostAnswer:
            try:
                source = read_candidate_inside(workspace, str(arguments.get("path") or SOLUTION))
            except UsageError as problem:
                return HostAnswer("error", str(problem), {})
            verdict = evaluation.judge(kind, source)
            data = submission_data(source, verdict) if kind is JobKind.EVALUATE else {}
            return HostAnswer("ok", answer_text(kind, verdict), data)

        return call

    return {name: tool(kind) for name, kind in KINDS.items()}


def read_candidate_inside(workspace: Path, name: str) -> str:
    """The text of a file below `workspace`, which the agent wrote: no link and no `..` leads out of it.

    Raises UsageError in words for the model.
    """
    parts = PurePosixPath(name.removeprefix("/workspace/")).parts
    if not parts or ".." in parts or parts[0] == "/":
        raise UsageError(f"{name} does not lie in the workspace; give a path below it, such as {SOLUTION}")
    folder = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        # Not blocking: a named pipe would wait for its writer for ever.
        handle = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise UsageError(f"{name} is no regular file; write the candidate's source into {SOLUTION}")
            return candidate_text(file.read(MOST_CANDIDATE_BYTES + 1), name)
    except OSError as problem:
        reason = problem.strerror or "unknown reason"
        raise UsageError(f"{name} cannot be read ({reason}); write the candidate's source into {SOLUTION}") from None
    except ValueError:
        raise UsageError(f"{name!r} is no path; give a path below the workspace, such as {SOLUTION}") from None
    finally:
        os.close(folder)
