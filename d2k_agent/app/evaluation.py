"""From a candidate's file to a verdict: reads the text, builds the job, owns the evaluator that answers it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import secrets
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from d2k_agent.app.launching import open_launcher
from d2k_agent.app.surroundings import Surroundings
from d2k_agent.catalog import counts_of, suspected
from d2k_agent.config import Settings
from d2k_agent.contract import (
    Environment,
    EvaluatorJob,
    JobKind,
    ProfileWish,
    SanitizerCheck,
    Verdict,
    VerdictStatus,
    source_sha256,
)
from d2k_agent.contract.wording import either
from d2k_agent.errors import EvaluatorError, UsageError

if TYPE_CHECKING:
    from d2k_agent.catalog import Task
    from d2k_agent.launchers import Launcher, Progress

MOST_CANDIDATE_BYTES = 1 << 20
NO_SOURCE = "no Python\n"
"""A text that does not parse: the first step ends its job, and the verdict says where it was reached."""


def read_candidate(path: Path, role: str = "candidate") -> str:
    """The candidate's source, or that of the `role` that errors name.

    Raises UsageError for what cannot be one: no file, too large, not UTF-8 text.
    """
    try:
        if path.is_dir():
            example = next(iter(sorted(path.glob("*.py"))), path / "solution.py")
            raise UsageError(f"{path} is a folder; name the {role}'s file, for example {example}")
        if not path.exists():
            raise UsageError(f"there is no file {path}; name the {role}'s source file")
        if not path.is_file():
            raise UsageError(f"{path} is no regular file; copy the {role} into a file and name that")
        with path.open("rb") as file:
            raw = file.read(MOST_CANDIDATE_BYTES + 1)
    except OSError as problem:
        raise UsageError(f"{path} cannot be read ({problem.strerror}); correct its path or permissions") from None
    return candidate_text(raw, str(path), role)


def candidate_text(raw: bytes, name: str, role: str = "candidate") -> str:
    """Decode a candidate's bytes. Raises UsageError for more than 1 MiB and for what is not text."""
    if len(raw) > MOST_CANDIDATE_BYTES:
        raise UsageError(f"{name} is larger than 1 MiB; a {role} is one Python source file, without data")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise UsageError(f"{name} is not UTF-8 text (byte {problem.start}); give the Python source itself") from None
    if "\0" in text:
        raise UsageError(f"{name} holds a zero byte and is no Python source; give the source itself")
    return text


class Evaluation:
    """Jobs about one task, under one set of choices, answered by one evaluator. Use as a context manager.

    `baseline` is the source that speedups are over; None: the task's own, where it has one. `modelling_s` is how much
    processor time may go into modelling each candidate that was judged and could not be measured; 0: none is modelled.
    Each job has a fresh secret seed; with `repeatable`, for sources of the task's own that need no secrets kept from
    them, one that follows from task, source and how often it was judged.
    """

    def __init__(
        self,
        launcher: Launcher,
        task: Task,
        *,
        target: str | None,
        device: str,
        unsafe: bool,
        baseline: str | None = None,
        modelling_s: float = 0.0,
        repeatable: bool = False,
    ) -> None:
        self._modelling_s = modelling_s
        self._judged = Counter[str]() if repeatable else None
        self._launcher = launcher
        self._task = task
        self._bundle = task.bundle()
        self._target = target
        self._device = device
        self._unsafe = unsafe
        self._baseline = baseline if baseline is not None else task.baseline_text()
        self._counts = counts_of(task)
        self._environment: Environment | None = None

    def judge(
        self,
        kind: JobKind,
        candidate: str,
        workloads: Sequence[str] = (),
        beat: float | None = None,
        wish: ProfileWish | None = None,
        check: SanitizerCheck = SanitizerCheck.MEMCHECK,
        ranks: int | None = None,
    ) -> Verdict:
        """Carry out one job. Raises MachineError when no verdict can be had.

        `beat` is the incumbent's geometric-mean speedup: below it, the baseline is not measured again (decision 9).
        `wish` is what a profile shall look into, `check` what a sanitizer looks for, `ranks` as check_ranks() has it.
        """
        job = EvaluatorJob(
            kind=kind,
            task=self._bundle,
            candidate=candidate,
            seed=self._seed(candidate),
            target=self._target,
            device=self._device,
            workloads=tuple(workloads),
            unsafe_no_sandbox=self._unsafe,
            baseline=self._baseline if kind.judges else None,
            beat=beat,
            modelling_s=self._modelling_s if kind is JobKind.EVALUATE else 0.0,
            profile=wish or ProfileWish(),
            check=check,
            ranks=ranks,
        )
        try:
            verdict = suspected(self._launcher.launch(job), self._counts)
        except EvaluatorError as death:
            verdict = self._blame(job, death)
        self._environment = verdict.environment
        return verdict

    def repeats(self, verdict: Verdict) -> bool:
        """Whether the source of `verdict` would be judged now as it was then.

        True for the same evaluator, task, machine, device, target and versions, and the same baseline where one was
        timed. The policies of timing are the task's and the evaluator's, so that their digests cover them. Asks the
        evaluator where nothing was judged yet; raises MachineError as judge() does.
        """
        if self._environment is None:
            self.judge(JobKind.EVALUATE, NO_SOURCE)
        assert self._environment is not None
        if _circumstances(self._environment) != _circumstances(verdict.environment):
            return False
        return verdict.baseline_sha256 in (None, None if self._baseline is None else source_sha256(self._baseline))

    def _seed(self, candidate: str) -> str:
        if self._judged is None:
            return secrets.token_hex(32)
        source = source_sha256(candidate)
        self._judged[source] += 1
        return hashlib.sha256(f"{self._bundle.digest} {source} {self._judged[source]}".encode()).hexdigest()

    def _blame(self, job: EvaluatorJob, death: EvaluatorError) -> Verdict:
        """Whose fault it is when one candidate ended the evaluator twice: the baseline's verdict tells.

        A task without a baseline is asked for the verdict on its template: that there is one is all that counts then.
        """
        baseline = self._task.baseline_text()
        known_good = baseline or self._bundle.public["solution.py"]
        broken = EvaluatorError(
            f"{death}; run `d2k-agent doctor` to see what this machine lacks; if other tasks are judged here, "
            f"something in the Python files of {self._task.slug} ends the process"
        )
        if known_good == job.candidate:
            raise broken
        try:
            verdict = self._launcher.launch(
                dataclasses.replace(job, candidate=known_good, seed=self._seed(known_good), baseline=None, beat=None)
            )
        except EvaluatorError:
            raise broken from None
        if baseline is not None and not (verdict.status.acceptable or verdict.status is VerdictStatus.NOISY):
            raise broken
        return Verdict(
            VerdictStatus.RUNTIME_ERROR,
            job.candidate_sha256,
            f"the evaluator died of this candidate twice, and judges another one without fault ({death})",
            verdict.environment,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self._launcher.close()


def _circumstances(environment: Environment) -> Environment:
    """What decides how a candidate is judged: not what confined it, which is unknown where none of its code ran."""
    return dataclasses.replace(environment, isolation=None)


def judge_file(
    around: Surroundings,
    command_line: Settings,
    kind: JobKind,
    task_name: str,
    solution: Path,
    labels: Sequence[str],
    progress: Progress,
    baseline: Path | None = None,
    wish: ProfileWish | None = None,
    check: SanitizerCheck = SanitizerCheck.MEMCHECK,
    ranks: int | None = None,
) -> Verdict:
    """One job about a file, by an evaluator of its own. Raises UsageError before anything is started.

    `baseline` is the file that speedups are over; None: the task's own. The rest is as Evaluation.judge has it.
    """
    from d2k_agent.catalog import find_task

    settings = around.settings(command_line)
    task = find_task(task_name)
    workloads = check_workloads(task, labels, kind)
    check_ranks(task, ranks)
    candidate = read_candidate(solution)
    over = None if baseline is None else read_candidate(baseline, "baseline")
    with open_evaluation(around, settings, task, progress, over) as evaluation:
        return evaluation.judge(kind, candidate, workloads, wish=wish, check=check, ranks=ranks)


def open_evaluation(
    around: Surroundings,
    settings: Settings,
    task: Task,
    progress: Progress,
    baseline: str | None = None,
    modelling_s: float = 0.0,
    repeatable: bool = False,
) -> Evaluation:
    """The evaluation of one task as the settings want it; the evaluator starts with the first job.

    `progress` is told in a few words what the evaluator is doing. `baseline` takes the place of the task's own. The
    rest is as Evaluation has it.
    """
    return Evaluation(
        open_launcher(around, settings, progress),
        task,
        target=settings.target,
        device=settings.device or "auto",
        unsafe=bool(settings.unsafe_no_sandbox),
        baseline=baseline,
        modelling_s=modelling_s,
        repeatable=repeatable,
    )


def check_workloads(task: Task, labels: Sequence[str], kind: JobKind) -> tuple[str, ...]:
    """`labels`, when each is a workload of `task` that a job of this kind can take; else UsageError that lists them.

    Registered ones are compiled and measured; smoke ones are for correctness alone, and for a sanitizer.
    """
    known = [] if kind is JobKind.SANITIZE else [workload.label for workload in task.workloads]
    if kind.judges or kind is JobKind.SANITIZE:
        hidden = json.loads(task.bundle().hidden.get("workloads.json", "{}"))
        known += [smoke["label"] for smoke in hidden.get("smoke", ())]
    for label in labels:
        if label not in known:
            raise UsageError(f"{task.slug} has no workload {label!r}; choose from {', '.join(known)}")
    return tuple(labels)


def check_ranks(task: Task, ranks: int | None) -> None:
    """Raise UsageError where `task` is not for so many ranks. None is as many as it names first, which all are for."""
    if ranks is None or ranks in (task.ranks or (1,)):
        return
    if not task.ranks:
        raise UsageError(f"{task.slug} is for one rank, not for {ranks}; leave --ranks out")
    raise UsageError(f"{task.slug} is for {either(task.ranks)} ranks, not for {ranks}; choose one of these")
