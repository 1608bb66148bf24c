"""submit, compile, profile and sanitize as the agent's tools: a file of the workspace becomes a job, its verdict an
answer."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from d2k_agent.app.evaluation import MOST_CANDIDATE_BYTES, Evaluation, candidate_text, check_workloads
from d2k_agent.app.profiles import change_in_run, profile_data
from d2k_agent.config import PROFILE_TOKENS
from d2k_agent.contract import QUEUED, JobKind, ProfileWish, SanitizerCheck, Verdict, VerdictStatus, source_sha256
from d2k_agent.errors import UsageError
from d2k_agent.reports.brief_text import brief_answer
from d2k_agent.reports.verdict_text import answer_text

if TYPE_CHECKING:
    from d2k_agent.app.incumbent import Incumbent
    from d2k_agent.catalog import Task
    from d2k_agent.toolbox import HostAnswer, HostTool

KINDS = {
    "submit": JobKind.EVALUATE,
    "compile": JobKind.COMPILE,
    "profile": JobKind.PROFILE,
    "sanitize": JobKind.SANITIZE,
}
ALREADY_JUDGED = "This text was judged before, byte for byte, by the same evaluator: what follows is that verdict.\n\n"
_DECIDED = {
    *(VerdictStatus.PASSED, VerdictStatus.UNTIMED, VerdictStatus.INCORRECT),
    *(VerdictStatus.RULE_VIOLATION, VerdictStatus.COMPILE_ERROR),
}
"""Verdicts that a second look would not change. The others can be the machine's doing, or a moment's."""


def host_tools(
    evaluation: Evaluation,
    task: Task,
    workspace: Path,
    incumbent: Incumbent,
    wording: str = "tables",
    profile_tokens: int = PROFILE_TOKENS,
) -> dict[str, HostTool]:
    """The tools that the host carries out. What the model did wrong is an error answer; a broken machine is raised.

    `incumbent` knows the submissions so far. What is submitted again unchanged gets the verdict that it has, without a
    new submission, also after a resume: nobody may try seeds until one is lucky. Where it would be judged otherwise now
    (Evaluation.repeats), it is a new submission. `wording` is one of the configuration's WORDINGS; under "brief" a
    profile takes `profile_tokens` at most.
    """
    from d2k_agent.agent import submission_data
    from d2k_agent.records import QUEUED_S
    from d2k_agent.toolbox import HostAnswer, PathError, read_file

    told = partial(brief_answer, profile_tokens=profile_tokens) if wording == "brief" else answer_text

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
            before = _judged_before(incumbent, source, evaluation) if submits else None
            if before is not None:
                return HostAnswer("ok", ALREADY_JUDGED + told(kind, before), {"outcome": _outcome(kind, before)})
            wish = _wish(task, incumbent, source, labels, arguments) if kind is JobKind.PROFILE else None
            check = SanitizerCheck(arguments.get("check", SanitizerCheck.MEMCHECK))
            verdict = evaluation.judge(kind, source, labels, incumbent.speedup() if submits else None, wish, check)
            data = submission_data(source, verdict) if submits else profile_data(verdict)
            if verdict.seconds.get(QUEUED):
                data[QUEUED_S] = verdict.seconds[QUEUED]
            text = told(kind, verdict, change_in_run(incumbent, verdict))
            return HostAnswer("ok", text, {"outcome": _outcome(kind, verdict), **data})

        return call

    return {name: tool(kind) for name, kind in KINDS.items()}


def _judged_before(incumbent: Incumbent, source: str, evaluation: Evaluation) -> Verdict | None:
    """The first verdict on this text that a second look now would not change, None where there is none."""
    from d2k_agent.records import joined

    sha256 = source_sha256(source)
    for item in incumbent.submissions():
        if item.sha256 == sha256 and item.verdict.status in _DECIDED:
            with suppress(ValueError):  # a record that another version wrote is no verdict to repeat
                verdict = joined(item.verdict, item.times)
                if evaluation.repeats(verdict):
                    return verdict
    return None


def _wish(
    task: Task, incumbent: Incumbent, source: str, labels: tuple[str, ...], arguments: Mapping[str, Any]
) -> ProfileWish:
    """What a profile shall look into, with the latency of the call where this candidate was measured before."""
    label = labels[0] if labels else task.workloads[0].label
    sections = tuple(dict.fromkeys(arguments.get("sections", ())))
    measured = incumbent.measured(source_sha256(source), label)
    return ProfileWish(sections, measured.mean_ms, measured.sm_mhz) if measured else ProfileWish(sections)


def _outcome(kind: JobKind, verdict: Verdict) -> str:
    if kind is JobKind.PROFILE and verdict.profile is not None:
        return "profiled"
    if kind is JobKind.SANITIZE and verdict.sanitizer is not None:
        return "sanitized"
    return verdict.status.value
