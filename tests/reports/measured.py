"""Verdicts of a GPU, for the tests of what is printed about them."""

from __future__ import annotations

from dataclasses import replace

from d2k_agent.contract import Check, Environment, Measurement, Verdict, VerdictStatus, WorkloadResult

SHA = "a" * 64
H200 = Environment(
    machine="somebodys-host",
    device="cuda",
    device_name="NVIDIA H200",
    target="h200",
    isolation="landlock",
    python="3.12",
    torch="2.11",
    triton="3.6",
    evaluator_digest="e" * 64,
    task_digest="t" * 64,
    details={"folder": "/secret/place"},
)


def measurement(mean_ms: float, **fields: object) -> Measurement:
    values = {"outside_ms": mean_ms * 1.001, "audit_ms": mean_ms * 1.01, "sm_mhz": 1755.0, "power_w": 688.4, **fields}
    return Measurement(mean_ms=mean_ms, calls=80, batches=5, policy="events_batch", **values)  # type: ignore[arg-type]


def workload(label: str, mean_ms: float, baseline_ms: float) -> WorkloadResult:
    return WorkloadResult(
        label,
        VerdictStatus.PASSED,
        (Check("result", "rel_norm", 0.0031, 0.012, True),),
        mean_ms=mean_ms,
        speedup=baseline_ms / mean_ms,
        rel_norm=0.0031,
        measurement=measurement(mean_ms, sm_mhz=1980.0 if label == "small" else 1755.0),
        baseline=measurement(baseline_ms),
    )


def timed() -> Verdict:
    """Two registered workloads, twice as fast as the baseline, measured A B B A, and a smoke one."""
    smoke = WorkloadResult("smoke.tiny", VerdictStatus.UNTIMED, registered=False)
    return Verdict(
        VerdictStatus.PASSED,
        SHA,
        "correct and measured",
        H200,
        workloads=(workload("small", 12.34567, 24.69134), workload("large", 130.5, 261.0), smoke),
        geomean_speedup=2.0,
        peak_memory_bytes=3 << 30,
        baseline_sha256="0123456789abcdef" * 4,
        drift=0.004,
    )


def void() -> Verdict:
    """The same with a baseline that moved too far."""
    whole = timed()
    results = tuple(replace(item, speedup=None) for item in whole.workloads)
    return replace(whole, workloads=results, geomean_speedup=None, drift=0.031)
