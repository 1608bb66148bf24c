"""The order of the checks and what they add up to: one job in, one verdict out.

Cheap checks come first and the first failure decides. What costs half a minute and depends on the source alone (the
late variations, the compile report) is remembered by source digest for the life of the evaluator.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from d2k_agent.contract import (
    QUEUED,
    Check,
    CompileReport,
    Environment,
    EvaluatorJob,
    JobKind,
    Verdict,
    VerdictStatus,
    Violation,
    WorkloadResult,
)
from d2k_agent.evaluator.bench import Bench
from d2k_agent.evaluator.checks.calls import lacks_memory, memory_check
from d2k_agent.evaluator.checks.compiling import compile_report
from d2k_agent.evaluator.checks.prescribed import prescribed_violations
from d2k_agent.evaluator.checks.proving import prove
from d2k_agent.evaluator.checks.series import Budget, Series, planned
from d2k_agent.evaluator.checks.static import static_violations
from d2k_agent.evaluator.environment import compiled_for_present, describe_environment, present_target
from d2k_agent.evaluator.evidence import launched_when_compiled
from d2k_agent.evaluator.faults import CandidateFault
from d2k_agent.evaluator.findings import Findings
from d2k_agent.evaluator.looking import look, nothing_to_see
from d2k_agent.evaluator.modelling.asking import model
from d2k_agent.evaluator.process import CandidateProcess
from d2k_agent.evaluator.profiling import with_device_clock
from d2k_agent.evaluator.ranges import span
from d2k_agent.evaluator.ranks.choosing import device_for, load_task, possible, processes, series_runner
from d2k_agent.evaluator.rules import missing_launch
from d2k_agent.evaluator.task import derive
from d2k_agent.evaluator.timing.session import Baseline, Comparison, Running, Setting
from d2k_agent.isolation import lease


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
_ON_THE_DEVICE = {"baseline", "correctness", "timing", "profile", "sanitize", "device clock"}


class _Case:
    """One job on its way to a verdict."""

    def __init__(self, bench: Bench, job: EvaluatorJob) -> None:
        self._bench, self._job = bench, job
        self._task = load_task(job.task, job.ranks)
        self._device = device_for(self._task, bench.device(job.device))
        self._found = Findings()
        self._held = ExitStack()
        self._running = Running(self._process)
        self._baseline: Baseline | None = None
        elsewhere = None if self._device.times else job.meant_for
        self._target = job.target or elsewhere or present_target()
        self._budget = Budget(job.limits.job_s)
        if not self._device.times:
            self._found.notes += nothing_to_see(job)

    def verdict(self) -> Verdict:
        unleased = self._device.uuids
        with span("submission", self._job.candidate_sha256[:8]), self._held:
            for name, step in possible(self._task, self._steps(), self._found.notes):
                self._bench.progress(name)
                if unleased and name in _ON_THE_DEVICE:
                    # From here on the GPU is ours alone: what one run checks would slow what another one times.
                    queued_s = self._held.enter_context(lease.hold(unleased, self._bench.progress))
                    self._found.seconds[QUEUED] = round(queued_s, 3)
                    unleased = ()
                began = time.monotonic()
                try:
                    ended = step()
                except CandidateFault as fault:
                    ended = self._end(fault.status, fault.message, fault.violations)
                self._found.seconds[name] = round(time.monotonic() - began, 3)
                if ended is not None:
                    return self._end(ended.status, ended.message, ended.violations)
        return self._acceptable()

    def _steps(self) -> list[tuple[str, Callable[[], Verdict | None]]]:
        if self._job.kind is JobKind.PROVE:
            return [("proof", self._proof)]
        measured = [("timing", self._timed)] if self._device.times else [("late", self._late)] * self._late_is_due()
        # Before the candidate's process, so that each candidate is timed in the process in which it was checked.
        first = [("baseline", self._baselined)] * self._device.times
        if self._job.trusted:
            return [*first, ("correctness", self._correctness), *measured]
        steps: list[tuple[str, Callable[[], Verdict | None]]] = [("static", self._static)] * self._job.static_rules
        if self._job.kind is JobKind.SANITIZE:
            return [*steps, *[("sanitize", self._looked)] * self._device.times]
        if self._job.kind is JobKind.MODEL:
            return [*steps, ("model", self._modelled)]
        steps += [("compile", self._compile), ("precision", self._precision)]
        if self._job.kind is JobKind.PROFILE:
            steps += [("profile", self._looked)] * self._device.times
        if self._job.kind.judges:
            steps += [
                *first,
                ("correctness", self._correctness),
                ("captured", self._captured),
                ("launches", self._launches),
            ]
            steps += measured
            steps += [("device clock", self._device_clock)] * self._device.times
            steps += [("model", self._modelled)] * (self._job.modelling_s > 0 and not self._device.times)
        return steps

    def _proof(self) -> Verdict | None:
        self._found.results = prove(self._task, self._device, self._job.seed, self._bench.progress)
        failed = [result for result in self._found.results if not result.status.acceptable]
        return self._end(failed[0].status, "\n".join(result.message for result in failed)) if failed else None

    def _static(self) -> Verdict | None:
        try:
            violations = static_violations(self._job.candidate, self._task.rules)
        except SyntaxError as problem:
            return self._end(VerdictStatus.COMPILE_ERROR, f"solution.py line {problem.lineno}: {problem.msg}")
        return self._violated(violations)

    def _violated(self, violations: Sequence[Violation]) -> Verdict | None:
        if not violations:
            return None
        first = violations[0]
        more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
        return self._end(VerdictStatus.RULE_VIOLATION, f"{first.message}{more}", tuple(violations))

    @property
    def _wanted(self) -> list[dict[str, Any]]:
        """The registered workloads that the job asks for."""
        chosen = self._job.workloads
        return [workload for workload in self._task.registered if not chosen or workload["label"] in chosen]

    def _compile(self) -> Verdict | None:
        wanted = self._wanted
        if not wanted:
            return None
        self._found.report = report = self._reported(wanted)
        if self._device.times and self._task.ranks == 1 and compiled_for_present(report):
            # Elsewhere run() may choose other kernels: by the GPU's properties, or by the rank.
            self._found.launched = launched_when_compiled(report, [workload["label"] for workload in wanted])
        if self._found.report.error is not None:
            # Host code that raises under the pretended GPU is asked again where it really runs: that verdict decides.
            if self._found.report.error_kind == "run" and self._job.kind.judges:
                return None
            return self._end(
                _COMPILE_STATUS.get(self._found.report.error_kind or "compile", VerdictStatus.COMPILE_ERROR),
                self._found.report.error,
            )
        return None if self._device.times else self._untimed(wanted)

    def _reported(self, workloads: Sequence[dict[str, Any]]) -> CompileReport:
        """The compiler's view at these workloads, remembered."""
        labels = [workload["label"] for workload in workloads]
        key = (self._task.digest, self._job.candidate_sha256, f"{self._target} {labels} {self._task.ranks}")
        if key not in self._bench.reports:
            report = self._compiled(list(workloads))
            if report.error_kind == "time":  # a busy minute of the machine must not condemn a source for good
                return report
            self._bench.reports[key] = report
        return self._bench.reports[key]

    def _untimed(self, wanted: Sequence[dict[str, Any]]) -> Verdict | None:
        """What is known of the registered workloads without a GPU: that they compile, and what the host code holds."""
        assert self._found.report is not None
        for index, workload in enumerate(wanted):
            label = workload["label"]
            checks = self._memory(workload, self._found.report)
            if index and lacks_memory(checks):
                # As in _checked: what is kept for the shapes before counts, and a process of its own tells.
                checks = self._memory(workload, self._reported([workload])) or checks
            failed = [f"{label}: {check.message}" for check in checks if not check.passed]
            status = VerdictStatus.INCORRECT if failed else VerdictStatus.UNTIMED
            compiled = f"every launch compiles for {self._target}; candidates ran on the CPU, so not at this shape"
            result = WorkloadResult(label, status, tuple(checks), message=failed[0] if failed else compiled)
            if failed:
                self._found.results.append(result)
                return self._end(status, result.message)
            self._found.registered.append(result)
        return None

    def _memory(self, workload: dict[str, Any], report: CompileReport) -> list[Check]:
        """The check of what the host code held; none where the capture did not get through the workload."""
        peak_bytes = report.peak_bytes.get(workload["label"])
        return [] if peak_bytes is None else [memory_check(self._task, workload, peak_bytes)]

    def _precision(self) -> Verdict | None:
        if self._found.report is None or self._found.report.error is not None:
            return None
        return self._violated(prescribed_violations(self._found.report, self._task))

    def _compiled(self, workloads: list[dict[str, Any]]) -> CompileReport:
        with self._bench.candidate(self._bench.compiling, self._job) as process:
            report, self._found.isolation = compile_report(
                self._job, self._target, process, workloads, self._task.smoke
            )
            return report

    def _baselined(self) -> Verdict | None:
        """On a GPU: have the baseline up and measured."""
        source = self._job.baseline
        if self._wanted and source is not None:
            setting = self._setting
            self._baseline = self._bench.baseline(
                self._job, lambda: Baseline.start(lambda: self._process(source), setting)
            )
            if not self._baseline.covers(setting):
                self._baseline.measure(setting, {})
        return None

    @property
    def _setting(self) -> Setting:
        return Setting(
            self._task,
            self._device,
            self._wanted,
            self._job.seed,
            self._job.limits,
            self._bench.progress,
            self._job.trusted,
            self._found.own(self._job.candidate),
        )

    def _correctness(self) -> Verdict | None:
        if not self._job.trusted:
            self._bench.require(self._task, self._device, self._job.seed)
        self._held.enter_context(self._running)
        ended = self._series(late=False)
        if not self._device.times:
            self._running.end()
        return ended

    def _captured(self) -> Verdict | None:
        if self._found.report is None or self._found.report.error is None:
            return None
        return self._end(
            VerdictStatus.COMPILE_ERROR, f"correct, but not captured for the target: {self._found.report.error}"
        )

    def _launches(self) -> Verdict | None:
        return self._violated(missing_launch(self._job.candidate))

    def _late(self) -> Verdict | None:
        if not self._late_is_due() or self._remembered():
            return None
        return self._late_series()

    def _late_is_due(self) -> bool:
        return bool(planned(self._task, self._device, late=True)) and not self._selected_smoke()

    def _remembered(self) -> bool:
        """True where the late variations of this source were right before: their results are taken over."""
        known = self._bench.late.get(self._late_key)
        if known is None:
            return False
        results, peak_bytes = known
        self._found.results += results
        self._found.peak(peak_bytes)
        return True

    @property
    def _late_key(self) -> tuple[str, str, str]:
        return self._task.digest, self._job.candidate_sha256, f"{self._device.name} {self._task.ranks}"

    def _late_series(self) -> Verdict | None:
        before = len(self._found.results)
        ended = self._series(late=True)
        if ended is None:
            self._bench.late[self._late_key] = (tuple(self._found.results[before:]), self._found.peak_memory_bytes)
        return ended

    def _selected_smoke(self) -> bool:
        return bool(set(self._job.workloads) & {workload["label"] for workload in self._task.smoke})

    def _process(self, source: str = "") -> CandidateProcess:
        """A fresh process for the candidate, or for another source, which never gathers, on the job's device."""
        bench, job, device, gathers = self._bench, self._job, self._device, self._job.trusted and not source
        zygote = bench.running if device.times else bench.interpreting
        assert zygote is not None
        return processes(lambda gpu: bench.candidate(zygote, job, device.name, source, gpu), device, gathers)

    def _series(self, late: bool) -> Verdict | None:
        """All series of one tier, in order, to the first failure."""
        tier = "late" if late else "correctness"
        for series in planned(self._task, self._device, late):
            if self._selected_smoke() and series.label not in self._job.workloads:
                continue
            result = self._checked(series, tier)
            self._found.results.append(result)
            if not self._job.trusted:
                self._running.look()
            if not result.status.acceptable:
                return self._end(result.status, result.message)
        return None

    def _checked(self, series: Series, tier: str, attempt: str = "") -> WorkloadResult:
        """What a series came to in the process that is there, or in a fresh one."""
        job, process = self._job, self._running.process
        self._found.isolation = process.isolation
        seed = derive(job.seed, tier, attempt)
        runner = series_runner(
            self._task, self._device, process, seed, job.limits, self._budget, self._bench.progress, job.trusted
        )
        crowded = self._running.serves_others(series.label)
        result = runner.run(series)
        name = f"{tier}.tuning"
        self._found.seconds[name] = round(self._found.seconds.get(name, 0.0) + runner.tuning_s, 3)
        if crowded and (result.status is VerdictStatus.OUT_OF_MEMORY or lacks_memory(result.checks)):
            self._running.end()
            self._found.notes.append(
                f"{series.label} was checked in a fresh process: one that served others lacked memory"
            )
            return self._checked(series, tier, "alone")
        self._found.peak(runner.peak_memory_bytes)
        return result

    def _timed(self) -> Verdict | None:
        """On a GPU: the late variations, then latencies, in the process that was checked."""
        if not self._wanted:
            return None
        try:
            ended = self._late()
            if ended is not None:
                return ended
            outcome = Comparison(self._setting, self._running, self._baseline, self._job.beat).run()
        except CandidateFault as fault:
            # The process has seen hidden inputs: what it says in its own words could carry them.
            raise CandidateFault(fault.status, fault.brief, fault.violations) from fault
        finally:
            self._running.end()
        failed = self._found.take(outcome)
        return self._end(failed.status, failed.message) if failed else None

    def _device_clock(self) -> Verdict | None:
        """The fourth clock: kernels and their durations by the profiler, where there is one.

        Outside of a confirmation only for calls whose kernels could not be read otherwise.
        """
        confirms = self._job.kind is JobKind.CONFIRM
        asked = [result for result in self._found.registered if confirms or result.kernels is None]
        if asked:
            clocked, notes = with_device_clock(self._job, asked, self._wanted, self._found.own(self._job.candidate))
            by_label = {result.label: result for result in clocked}
            self._found.registered = [by_label.get(result.label, result) for result in self._found.registered]
            self._found.notes += notes
            self._found.compare_launches()
        return None

    def _looked(self) -> Verdict | None:
        look(self._job, self._wanted, self._task.smoke, self._found)
        return None

    def _modelled(self) -> Verdict | None:
        model(self._bench, self._job, self._target, self._wanted, self._found)
        return None

    def _acceptable(self) -> Verdict:
        self._found.results = [*self._found.registered, *self._found.results]
        compiled = f"compiles for {self._target}" if self._found.report else "nothing was compiled for a GPU"
        where = "" if self._device.times else " that runs on a CPU"
        where += f", by {self._task.ranks} ranks" if self._task.ranks > 1 else ""
        checked = (
            "correct on the smoke workloads asked for" if self._selected_smoke() else f"correct on every check{where}"
        )
        if not self._job.kind.judges:
            ran = any((self._found.profile, self._found.sanitizer, self._found.modelled))
            return self._end(VerdictStatus.UNTIMED, f"{compiled}; {'nothing was judged' if ran else 'nothing ran'}")
        if self._found.outcome is not None:
            return self._end(VerdictStatus.PASSED, f"{checked}, measured on {self._device.describe()}")
        return self._end(VerdictStatus.UNTIMED, f"{checked}, {compiled}; nothing was measured")

    def _end(self, status: VerdictStatus, message: str, violations: tuple[Violation, ...] = ()) -> Verdict:
        self._found.libraries = self._running.libraries
        return self._found.verdict(self._job, self._environment(), status, message, violations)

    def _environment(self) -> Environment:
        return describe_environment(
            self._device, self._target, self._found.isolation, self._bench.evaluator_digest, self._task.digest
        )
