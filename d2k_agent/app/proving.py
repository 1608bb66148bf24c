"""A task's own code put to the test by an evaluator: does its reference repeat, do its gates tell right from wrong?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import takewhile
from typing import TYPE_CHECKING

from d2k_agent.app.evaluation import Evaluation, open_evaluation
from d2k_agent.app.surroundings import Surroundings
from d2k_agent.config import Settings
from d2k_agent.contract import JobKind, Verdict
from d2k_agent.contract.wording import counted
from d2k_agent.errors import UsageError

if TYPE_CHECKING:
    from d2k_agent.catalog import Finding, Task, WrongKernel
    from d2k_agent.launchers import Progress

TRIES_OF_RANKS = 3
"""How often a wrong kernel for several ranks may be judged until it fails where it must: what is out of order between
ranks shows where chance holds one of them up at the right place."""
MOST_OF_A_LIMIT, MOST_WHERE_TIMED = 0.75, 0.5
"""What the expert may use of a gate, on small shapes and on registered ones: the rest is for other designs and other
machines."""
BOUNDS = ("memory", "copies")
"""Gates with a bound that may be used up."""


def proofs_of(around: Surroundings, task: Task, progress: Progress) -> Iterator[Finding]:
    """The findings, as they come, on a CPU at the smoke shapes and those of variations that are not late.

    proof     the evaluator's own look at the task, without any candidate
    compiles  the expert compiles at the registered shapes, and holds no more memory there than it may
    expert    the expert passes, with a quarter of every gate to spare; baseline passes. That half is to spare at the
              registered shapes takes a GPU, and benchmarks/gpu/tasks.py
    wrong     each wrong kernel fails where it must

    Raises MachineError where there is no evaluator.
    """
    from d2k_agent.catalog import Finding

    settings = around.settings(Settings(device="cpu"))
    with open_evaluation(around, settings, task, progress, repeatable=True) as evaluation:
        try:
            verdict = evaluation.judge(JobKind.PROVE, "")
        except UsageError as problem:
            yield Finding("proof", False, str(problem))
            return
        yield _finding("proof", verdict, f"its reference repeats itself, and zeros fail{_where(task)}")
        if verdict.status.acceptable and task.guidance is not None:
            yield from _of_sources(evaluation, task, progress)


def _of_sources(evaluation: Evaluation, task: Task, progress: Progress) -> Iterator[Finding]:
    from d2k_agent.catalog import Finding
    from d2k_agent.catalog.reading import read_text

    assert task.guidance is not None
    labels = _labels(task)
    for name in ("expert", "baseline"):
        path = task.guidance / f"{name}.py"
        if not path.is_file():
            continue
        source = read_text(path)
        if name == "expert":
            progress("compiling the expert")
            verdict = evaluation.judge(JobKind.COMPILE, source)
            yield _finding(
                "compiles", verdict, f"the expert, at the registered shapes, for {verdict.environment.target}"
            )
        progress(f"judging the {name} at small shapes; at registered ones benchmarks/gpu/tasks.py does, on a GPU")
        verdict = evaluation.judge(JobKind.EVALUATE, source, labels)
        told = shortcoming(verdict) if name == "expert" or not verdict.status.acceptable else ""
        seen = f"{counted(len(labels), 'small workload')}{_where(task)}; registered shapes are for a GPU"
        yield Finding(name, not told, told, "" if told else seen)
    yield from proof_by_wrong_kernels(evaluation, task, labels, progress)


def proof_by_wrong_kernels(
    evaluation: Evaluation, task: Task, labels: Sequence[str], progress: Progress
) -> Iterator[Finding]:
    """Whether each wrong kernel of the task fails where it must, on the workloads named in `labels`."""
    from d2k_agent.catalog import Finding, wrong_kernels

    kernels, tries = wrong_kernels(task), TRIES_OF_RANKS if task.ranks else 1
    missed, retried = [], []
    for number, kernel in enumerate(kernels, 1):
        progress(f"judging wrong kernel {number} of {len(kernels)}, {kernel.name}")
        verdicts = (evaluation.judge(JobKind.EVALUATE, kernel.text, labels) for _ in range(tries))
        told = list(takewhile(bool, (_how_missed(kernel, verdict) for verdict in verdicts)))
        if len(told) == tries:
            missed.append(told[-1])
        elif told:
            retried.append(f"{kernel.name} in try {len(told) + 1}")
    if kernels:
        seen = ", ".join([f"{len(kernels)} of {len(kernels)} fail where they must", *retried])
        yield Finding("wrong kernels", not missed, "; ".join(missed), "" if missed else seen)


def _how_missed(kernel: WrongKernel, verdict: Verdict) -> str:
    """What the checks did instead of failing it where they must; empty where they did that."""
    found = failed_checks(verdict)
    if verdict.status.acceptable:
        return f"{kernel.name} passes every check: tighten the gates, or add a variation that shows it"
    if fails_there(kernel.fails, found):
        return ""
    where = ", ".join(found) or f"{verdict.status} ({verdict.message})"
    return f"{kernel.name} must fail at {kernel.fails}, and fails at {where}"


def _finding(name: str, verdict: Verdict, seen: str) -> Finding:
    from d2k_agent.catalog import Finding

    passed = verdict.status.acceptable
    return Finding(name, passed, "" if passed else verdict.message, seen if passed else "")


def _where(task: Task) -> str:
    return f", {task.ranks[0]} processes on a CPU" if task.ranks else ", on a CPU"


def fails_there(fails: str, found: Sequence[str]) -> bool:
    """Whether one of the checks that were found is the one that `fails` names, as WrongKernel says."""
    return any(fnmatchcase(check, fails) for check in found)


def failed_checks(verdict: Verdict) -> list[str]:
    """What decided against a candidate: rules by name, gates by output and name."""
    failed = [check for result in verdict.workloads for check in result.checks if not check.passed]
    return [violation.check for violation in verdict.violations] + [f"{item.output} {item.gate}" for item in failed]


def _labels(task: Task) -> list[str]:
    """All small shapes: a job that names them neither compiles nor runs what is late."""
    hidden = json.loads(task.bundle().hidden["workloads.json"])
    names = [variation["name"] for variation in hidden["variations"] if not variation.get("late")]
    return [*(smoke["label"] for smoke in hidden["smoke"]), *dict.fromkeys(names)]


def shortcoming(verdict: Verdict) -> str:
    """What keeps an expert from showing that the gates can be reached; empty where nothing does."""
    if not verdict.status.acceptable:
        return verdict.message
    for result in verdict.workloads:
        most = MOST_WHERE_TIMED if result.registered else MOST_OF_A_LIMIT
        for check in result.checks:
            if check.limit and check.value is not None and check.gate not in BOUNDS:
                part = check.value / check.limit
                if part > most and check.gate != "allclose_share":
                    return (
                        f"{check.output} {check.gate} is {part:.0%} of its limit on {result.label}: the gate is to be "
                        f"reached with at most {most:.0%}, so widen it or make the expert more accurate"
                    )
    return ""
