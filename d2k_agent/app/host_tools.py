"""submit, compile and profile as the agent's tools: a file of the workspace becomes a job, its verdict an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from d2k_agent.app.evaluation import MOST_CANDIDATE_BYTES, Evaluation, candidate_text, check_workloads
from d2k_agent.contract import JobKind, Verdict
from d2k_agent.errors import UsageError
from d2k_agent.reports.verdict_text import answer_text

if TYPE_CHECKING:
    from d2k_agent.catalog import Task
    from d2k_agent.toolbox import HostAnswer, HostTool

KINDS = {"submit": JobKind.EVALUATE, "compile": JobKind.COMPILE, "profile": JobKind.PROFILE}


def host_tools(
    evaluation: Evaluation, task: Task, workspace: Path, incumbent: Callable[[], float | None]
) -> dict[str, HostTool]:
    """The tools that the host carries out. What the model did wrong is an error answer; a broken machine is raised.

    `incumbent` answers with the speedup that a submission has to beat, None where there is none yet.
    """
    from d2k_agent.agent import submission_data
    from d2k_agent.toolbox import HostAnswer, PathError, read_file

    def tool(kind: JobKind) -> HostTool:
        def call(arguments: Mapping[str, Any]) -> HostAnswer:
            path, label = str(arguments["path"]), arguments.get("workload")
            try:
                labels = check_workloads(task, () if label is None else (str(label),), kind)
                # One byte more than allowed, so that candidate_text is the one to refuse it.
                raw = read_file(str(workspace.resolve()), path, MOST_CANDIDATE_BYTES + 1)
                source = candidate_text(raw, path)
            except (UsageError, PathError) as problem:
                return HostAnswer("error", str(problem))
            submits = kind is JobKind.EVALUATE
            verdict = evaluation.judge(kind, source, labels, incumbent() if submits else None)
            submitted = submission_data(source, verdict) if submits else {}
            return HostAnswer("ok", answer_text(kind, verdict), {"outcome": _outcome(kind, verdict), **submitted})

        return call

    return {name: tool(kind) for name, kind in KINDS.items()}


def _outcome(kind: JobKind, verdict: Verdict) -> str:
    profiled = kind is JobKind.PROFILE and verdict.profile is not None
    return "profiled" if profiled else verdict.status.value
