"""Verdicts of every kind, for the tests of the page that explains one."""

from __future__ import annotations

from dataclasses import replace

from d2k_agent.contract import Check, CompileReport, KernelReport, Verdict, VerdictStatus, Violation, WorkloadResult
from tests.reports.measured import H200, SHA, timed

CPU = replace(H200, device="cpu", device_name="x86_64 CPU (Triton interpreter)", target="b200", details={})
CHECKED = {"static": 0.4, "compile": 48.3, "precision": 0.0, "correctness.tuning": 2.5, "correctness": 44.5}
ON_CPU = {**CHECKED, "captured": 0.0, "launches": 0.01, "late.tuning": 0.0, "late": 23.8}
ON_GPU = {
    **CHECKED,
    "captured": 0.0,
    "launches": 0.01,
    "late.tuning": 1.0,
    "timing.tuning": 30.0,
    "timing.timed": 41.0,
    "timing": 95.0,
}
COMMITMENT = "c0" * 32


def kernel(name: str = "gram", launches: int = 15, registers: int | None = 168) -> KernelReport:
    return KernelReport(name, 8, 3, registers, None, 0, 0, 98304, None, {}, launches=launches, source_line=40)


REPORT = CompileReport(
    "b200",
    "sm_100",
    "3.7.1",
    (kernel(), kernel(launches=5), kernel(launches=0, registers=255), kernel("spare", launches=0)),
    ("small", "large"),
    not_compiled=3,
    warnings=("kernel gram multiplies what it loads without TMA",),
)


def series(label: str, calls: str, rel_norm: float, *more: Check) -> WorkloadResult:
    checks = (
        Check("*", "memory", 70688.0, 67136512.0, True),
        Check("*", "copies", 0.0, 7168.0, True),
        Check("result", "rel_norm", rel_norm, 0.012, True),
        Check("result", "allclose_share", 1.0, None, True),
        *more,
    )
    return WorkloadResult(label, VerdictStatus.UNTIMED, checks, registered=False, rel_norm=rel_norm, message=calls)


SERIES = (series("smoke.small", "12 calls", 0.003), series("hidden.scaled", "2 calls", 0.006))


def verdict(status: VerdictStatus, seconds: dict[str, float], **fields: object) -> Verdict:
    values = {"message": "", "environment": CPU, "compile_report": REPORT, "seed_commitment": COMMITMENT, **fields}
    return Verdict(status, SHA, seconds=seconds, **values)  # type: ignore[arg-type]


def confirmed() -> Verdict:
    """Passed on a GPU, with all four clocks."""
    whole = timed()
    clocks = {"small": 11.9, "large": 128.0}
    results = [
        replace(item, measurement=replace(item.measurement, device_ms=clocks[item.label], sets=4))
        for item in whole.workloads
        if item.measurement is not None
    ]
    environment = replace(H200, driver="580.1", details={"cuda": "13.0", "uuid": "GPU-1234", "folder": "/secret/place"})
    return replace(
        whole,
        environment=environment,
        workloads=(*results, *SERIES),
        compile_report=REPORT,
        seed_commitment=COMMITMENT,
        seconds={**ON_GPU, "device clock": 12.0},
        notes=("small was timed again: the claimed time is 1.2% shorter than the supervisor's own clock saw",),
    )


def untimed() -> Verdict:
    """Correct on a CPU."""
    registered = WorkloadResult("small", VerdictStatus.UNTIMED, message="every launch compiles for b200")
    return verdict(
        VerdictStatus.UNTIMED, ON_CPU, message="correct", workloads=(registered, *SERIES), peak_memory_bytes=6390272
    )


def forbidden() -> Verdict:
    """Refused by the static rules."""
    broken = (Violation("static.tensor_math", "use a kernel instead of torch.matmul", 12),)
    return verdict(
        VerdictStatus.RULE_VIOLATION,
        {"static": 0.1},
        message="use a kernel instead of torch.matmul",
        violations=broken,
        compile_report=None,
        environment=replace(CPU, isolation=None),
    )


def incorrect() -> Verdict:
    """Wrong in a hidden variation of the late tier."""
    wrong = Check("result", "rel_norm", 0.345, 0.012, False, "relative norm 0.345 is above 0.012")
    late = WorkloadResult(
        "hidden.shifted", VerdictStatus.INCORRECT, (wrong,), registered=False, rel_norm=0.345, message="hidden.shifted"
    )
    return verdict(
        VerdictStatus.INCORRECT, ON_CPU, message="relative norm 0.345 is above 0.012", workloads=(*SERIES, late)
    )


def noisy() -> Verdict:
    """Correct, and never measured to the policy's noise."""
    result = WorkloadResult("small", VerdictStatus.NOISY, message="small: timed segments differ by 4.2%, twice")
    return verdict(VerdictStatus.NOISY, ON_GPU, message=result.message, workloads=(*SERIES, result), environment=H200)


def refused() -> Verdict:
    """Timed work that differs from audited work."""
    told = "timed work differs from audited work on small: 5.1 ms a call when every step is checked, 2.5 ms claimed"
    return verdict(
        VerdictStatus.RULE_VIOLATION,
        ON_GPU,
        message=f"{told}, in two processes",
        violations=(Violation("timing.audit", told),),
        workloads=SERIES,
        environment=H200,
    )
