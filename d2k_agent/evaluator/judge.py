"""The order of the checks and what they add up to: one job in, one verdict out.

Cheap checks come first and the first failure decides. What costs half a minute and depends on the source alone (the
late variations, the compile report) is remembered by source digest for the life of the evaluator.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from d2k_agent.contract import (
    CompileReport,
    Environment,
    EvaluatorJob,
    JobKind,
    Verdict,
    VerdictStatus,
    Violation,
    WorkloadResult,
)
from d2k_agent.evaluator.checks.compiling import compile_report
from d2k_agent.evaluator.checks.precision import precision_violations
from d2k_agent.evaluator.checks.series import SeriesRunner, planned
from d2k_agent.evaluator.devices import Device
from d2k_agent.evaluator.environment import describe_environment, present_target
from d2k_agent.evaluator.faults import CandidateFault, TaskFault
from d2k_agent.evaluator.process import CandidateProcess
from d2k_agent.evaluator.rules import check_rules, missing_launch
from d2k_agent.evaluator.task import LoadedTask, derive
from d2k_agent.evaluator.zygote import Zygote

Progress = Callable[[str], None]


@dataclass
class Bench:
    """What lives as long as the evaluator: zygotes, the device, and what is remembered by source digest."""

    interpreting: Zygote
    compiling: Zygote
    device: Device
    evaluator_digest: str
    progress: Progress
    reports: dict[tuple[str, str, str], CompileReport] = field(default_factory=dict)
    late: dict[tuple[str, str], tuple[WorkloadResult, int | None]] = field(default_factory=dict)

    def candidate(self, zygote: Zygote, job: EvaluatorJob) -> CandidateProcess:
        """A fresh confined process for the job's candidate."""
        keep = (self.interpreting.pid, self.compiling.pid)
        return CandidateProcess(zygote, job.candidate, job.limits, keep, job.unsafe_no_sandbox)


def judge(bench: Bench, job: EvaluatorJob) -> Verdict:
    """The verdict on one job. Executes no candidate code in this process, which holds references and seeds.

    Raises TaskFault for a broken task and IsolationRefused on a machine that cannot confine a candidate.
    """
    return _Case(bench, job).verdict()


_COMPILE_STATUS = {
    "run": VerdictStatus.RUNTIME_ERROR,
    "exit": VerdictStatus.ENDED_EARLY,
    "time": VerdictStatus.TIMED_OUT,
}


class _Case:
    """One job on its way to a verdict."""

    def __init__(self, bench: Bench, job: EvaluatorJob) -> None:
        self._bench, self._job = bench, job
        self._task = LoadedTask(job.task)
        self._results: list[WorkloadResult] = []
        self._report: CompileReport | None = None
        self._peak_memory_bytes: int | None = None
        self._seconds: dict[str, float] = {}
        self._isolation: str | None = None
        self._target = job.target or present_target()
        self._registered: list[WorkloadResult] = []

    def verdict(self) -> Verdict:
        if self._job.ranks != 1:
            raise TaskFault(f"this version judges on one rank, not on {self._job.ranks}")
        steps: list[tuple[str, Callable[[], Verdict | None]]] = [
            ("compile", self._compile),
            ("precision", self._precision),
        ]
        if self._job.static_rules:
            steps.insert(0, ("static", self._static))
        if self._job.kind is JobKind.EVALUATE:
            steps += [
                ("correctness", self._correctness),
                ("captured", self._captured),
                ("launches", self._launches),
                ("late", self._late),
            ]
        for name, step in steps:
            self._bench.progress(name)
            began = time.monotonic()
            try:
                ended = step()
            except CandidateFault as fault:
                ended = self._end(fault.status, fault.message, fault.violations)
            self._seconds[name] = round(time.monotonic() - began, 3)
            if ended is not None:
                return self._end(ended.status, ended.message, ended.violations)
        return self._acceptable()

    def _static(self) -> Verdict | None:
        try:
            violations = check_rules(self._job.candidate, self._task.rules)
        except SyntaxError as problem:
            return self._end(VerdictStatus.COMPILE_ERROR, f"solution.py line {problem.lineno}: {problem.msg}")
        return self._violated(violations)

    def _violated(self, violations: Sequence[Violation]) -> Verdict | None:
        if not violations:
            return None
        first = violations[0]
        more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
        return self._end(VerdictStatus.RULE_VIOLATION, f"{first.message}{more}", tuple(violations))

    def _compile(self) -> Verdict | None:
        wanted = [
            workload
            for workload in self._task.registered
            if not self._job.workloads or workload["label"] in self._job.workloads
        ]
        if not wanted:
            return None
        key = (self._task.digest, self._job.candidate_sha256, f"{self._target} {[w['label'] for w in wanted]}")
        if key not in self._bench.reports:
            report = self._compiled(wanted)
            if report.error_kind == "time":  # a busy minute of the machine must not condemn a source for good
                self._report = report
            else:
                self._bench.reports[key] = report
        self._report = self._report or self._bench.reports[key]
        if self._report.error is not None:
            # Host code that raises under the pretended GPU is asked again where it really runs: that verdict decides.
            if self._report.error_kind == "run" and self._job.kind is JobKind.EVALUATE:
                return None
            return self._end(
                _COMPILE_STATUS.get(self._report.error_kind or "compile", VerdictStatus.COMPILE_ERROR),
                self._report.error,
            )
        self._registered = [
            WorkloadResult(
                workload["label"],
                VerdictStatus.UNTIMED,
                message=f"every launch compiles for {self._target}; candidates ran on the CPU, so not at this shape",
            )
            for workload in wanted
        ]
        return None

    def _precision(self) -> Verdict | None:
        if self._report is None or self._report.error is not None:
            return None
        return self._violated(precision_violations(self._report, self._task.hidden.get("precision", {})))

    def _compiled(self, workloads: list[dict[str, Any]]) -> CompileReport:
        with self._bench.candidate(self._bench.compiling, self._job) as process:
            report, self._isolation = compile_report(self._job, self._target, process, workloads, self._task.smoke)
            return report

    def _correctness(self) -> Verdict | None:
        return self._run(late=False)

    def _captured(self) -> Verdict | None:
        if self._report is None or self._report.error is None:
            return None
        return self._end(VerdictStatus.COMPILE_ERROR, f"correct, but not captured for the target: {self._report.error}")

    def _launches(self) -> Verdict | None:
        return self._violated(missing_launch(self._job.candidate))

    def _late(self) -> Verdict | None:
        if not planned(self._task, self._bench.device, late=True) or self._selected_smoke():
            return None
        key = (self._task.digest, self._job.candidate_sha256)
        if key in self._bench.late:
            result, peak_bytes = self._bench.late[key]
            self._results.append(result)
            self._peak_memory_bytes = max(self._peak_memory_bytes or 0, peak_bytes or 0)
            return None
        ended = self._run(late=True)
        if ended is None:
            self._bench.late[key] = (self._results[-1], self._peak_memory_bytes)
        return ended

    def _selected_smoke(self) -> bool:
        return bool(set(self._job.workloads) & {workload["label"] for workload in self._task.smoke})

    def _run(self, late: bool) -> Verdict | None:
        """All series of one tier in one fresh process, in order, to the first failure."""
        job = self._job
        with self._bench.candidate(self._bench.interpreting, job) as process:
            self._isolation = process.answer(b"R", job.limits.import_s, "confining the candidate").decode()
            process.order({"do": "load", "path": process.path})
            process.answer(b"L", job.limits.import_s, "importing solution.py")
            runner = SeriesRunner(
                self._task,
                self._bench.device,
                process,
                derive(job.seed, "late" if late else "early"),
                job.limits,
                self._bench.progress,
            )
            for series in planned(self._task, self._bench.device, late):
                if self._selected_smoke() and series.label not in job.workloads:
                    continue
                result = runner.run(series)
                self._results.append(result)
                self._peak_memory_bytes = max(self._peak_memory_bytes or 0, runner.peak_memory_bytes or 0)
                if not result.status.acceptable:
                    return self._end(result.status, result.message)
        return None

    def _acceptable(self) -> Verdict:
        self._results = [*self._registered, *self._results]
        compiled = f"compiles for {self._target}" if self._report else "nothing was compiled for a GPU"
        checked = "correct on the smoke workloads asked for" if self._selected_smoke() else "correct on every check"
        message = f"{checked} that runs on a CPU, {compiled}; nothing was measured"
        if self._job.kind is not JobKind.EVALUATE:
            message = f"{compiled}; nothing ran"
        return self._end(VerdictStatus.UNTIMED, message)

    def _end(self, status: VerdictStatus, message: str, violations: tuple[Violation, ...] = ()) -> Verdict:
        notes = []
        if self._job.kind is JobKind.PROFILE:
            notes.append(
                "no profile: candidates ran on the CPU, where there is nothing to profile; see the compile report"
            )
        return Verdict(
            status=status,
            candidate_sha256=self._job.candidate_sha256,
            message=message,
            environment=self._environment(),
            violations=violations,
            workloads=tuple(self._results),
            compile_report=self._report,
            peak_memory_bytes=self._peak_memory_bytes,
            seed_commitment=hashlib.sha256(self._job.seed.encode()).hexdigest(),
            notes=tuple(notes),
            seconds=dict(self._seconds),
        )

    def _environment(self) -> Environment:
        return describe_environment(
            self._bench.device, self._target, self._isolation, self._bench.evaluator_digest, self._task.digest
        )
