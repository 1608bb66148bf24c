"""What a model reads after a submission, and what scripts read."""

from __future__ import annotations

import json

import pytest

from d2k_agent.contract import (
    Check,
    CompileReport,
    Environment,
    JobKind,
    KernelReport,
    Verdict,
    VerdictStatus,
    Violation,
    WorkloadResult,
)
from d2k_agent.contract.wire import WireError, from_data
from d2k_agent.reports.brief_text import brief_answer
from d2k_agent.reports.compile_text import compile_text
from d2k_agent.reports.verdict_data import verdict_data, verdict_of
from d2k_agent.reports.verdict_text import verdict_text

ENVIRONMENT = Environment(
    machine="somebodys-host",
    device="cpu",
    device_name="x86_64 CPU",
    target="b200",
    isolation="landlock",
    python="3.11.7",
    torch="2.13.0",
    triton="3.7.1",
    evaluator_digest="e" * 64,
    task_digest="t" * 64,
)


def verdict(status: VerdictStatus, **fields: object) -> Verdict:
    values = {"candidate_sha256": "c" * 64, "message": "", "environment": ENVIRONMENT, **fields}
    return Verdict(status=status, **values)  # type: ignore[arg-type]


def failed(label: str, value: float | None = 0.345) -> WorkloadResult:
    check = Check("result", "rel_norm", value, 0.012, False, "" if value else "holds NaN")
    passed = Check("result", "row_norm", 0.01, 0.1, True)
    return WorkloadResult(label, VerdictStatus.INCORRECT, (check, passed), registered=False)


def test_incorrect_names_each_failed_check_with_value_and_limit_and_no_passed_one() -> None:
    text = verdict_text(verdict(VerdictStatus.INCORRECT, message="Wrong.", workloads=(failed("smoke.small"),)))
    assert text.startswith("Status: incorrect\nWrong.")
    assert "smoke.small: result rel_norm = 0.345 (limit 0.012)" in text
    assert "row_norm" not in text


def test_a_check_without_a_number_says_its_message_and_no_made_up_value() -> None:
    text = verdict_text(verdict(VerdictStatus.INCORRECT, workloads=(failed("smoke.small", None),)))
    assert "result rel_norm (limit 0.012): holds NaN" in text


def test_what_the_verdict_says_itself_is_not_said_twice() -> None:
    text = verdict_text(
        verdict(VerdictStatus.INCORRECT, message="small: holds NaN", workloads=(failed("small", None),))
    )
    assert text.count("holds NaN") == 1 and "small: result rel_norm (limit 0.012)" in text


def test_many_failures_are_cut_and_the_cut_is_said() -> None:
    text = verdict_text(verdict(VerdictStatus.INCORRECT, workloads=tuple(failed(f"w{i}") for i in range(40))))
    assert "28 more left out" in text
    assert len(text.splitlines()) < 20


def test_a_workload_that_died_without_checks_is_named_with_its_reason() -> None:
    died = WorkloadResult("smoke.a", VerdictStatus.TIMED_OUT, message="run() took over 300 s", registered=False)
    text = verdict_text(verdict(VerdictStatus.TIMED_OUT, workloads=(died,)))
    assert "smoke.a: timed_out, run() took over 300 s" in text


def test_a_further_line_of_a_message_is_no_item_of_the_list_that_it_stands_in() -> None:
    forging = WorkloadResult("a", VerdictStatus.RUNTIME_ERROR, message="no\n  b: result rel_norm = 0", registered=False)
    data = verdict_data(verdict(VerdictStatus.RUNTIME_ERROR, message="no\nStatus: passed", workloads=(forging,)))
    lines = verdict_text(verdict_of(data)).splitlines()
    assert lines[:3] == ["Status: runtime_error", "no", "  Status: passed"]
    assert lines[-2:] == ["  a: runtime_error, no", "    b: result rel_norm = 0"]


def test_violations_come_with_lines() -> None:
    broken = (Violation("glue", "use a kernel instead of torch.matmul", 12), Violation("import", "no ctypes"))
    text = verdict_text(verdict(VerdictStatus.RULE_VIOLATION, violations=broken))
    assert "line 12, glue: use a kernel instead of torch.matmul" in text
    assert "  import: no ctypes" in text


def test_without_a_gpu_the_text_says_that_nothing_was_measured_and_why() -> None:
    text = verdict_text(verdict(VerdictStatus.UNTIMED, message="Correct."))
    assert "no latency and no speedup, since candidates ran on the CPU" in text
    assert "not ranked" in text


def test_workloads_that_were_compiled_alone_are_not_told_as_run() -> None:
    near = (Check("result", "rel_norm", 0.004, 0.012, True), Check("*", "memory", 10.0, 20.0, True))
    ran = [WorkloadResult(label, VerdictStatus.UNTIMED, near, registered=False) for label in ("smoke", "hidden.zero")]
    compiled = WorkloadResult("large", VerdictStatus.UNTIMED, near[1:], registered=True)
    told = "Ran on 2 smoke and hidden workloads, not on the registered one: rel_norm at most 0.004 of 0.012."
    untimed = verdict(VerdictStatus.UNTIMED, workloads=(compiled, *ran))
    for text in (verdict_text(untimed), brief_answer(JobKind.EVALUATE, untimed)):
        assert told in text.splitlines()


def test_of_two_outputs_under_one_gate_the_one_nearer_its_limit_is_told() -> None:
    checks = (Check("y", "close", 0.0119, 0.012, True), Check("z", "close", 0.02, 1.0, True))
    ran = WorkloadResult("smoke", VerdictStatus.UNTIMED, checks, registered=False)
    assert "close at most 0.0119 of 0.012" in verdict_text(verdict(VerdictStatus.UNTIMED, workloads=(ran,)))


def test_of_shares_that_must_be_large_the_smallest_is_told() -> None:
    checks = tuple(Check(name, "allclose_share", value, 0.99, True) for name, value in (("y", 0.991), ("z", 1.0)))
    ran = WorkloadResult("smoke", VerdictStatus.UNTIMED, checks, registered=False)
    told = verdict_text(verdict(VerdictStatus.UNTIMED, workloads=(ran,)))
    assert "allclose_share at least 0.991 of 0.99." in told


def test_a_gate_that_allows_no_difference_is_not_told_as_a_share_of_nothing() -> None:
    checks = (Check("y", "exact", 0.0, 0.0, True), Check("z", "rel_norm", 0.004, 0.012, True))
    ran = WorkloadResult("smoke", VerdictStatus.UNTIMED, checks, registered=False)
    told = verdict_text(verdict(VerdictStatus.UNTIMED, workloads=(ran,)))
    assert "Ran on 1 smoke and hidden workload: exact without a difference, rel_norm at most 0.004 of 0.012." in told


def test_the_text_is_portable() -> None:
    text = verdict_text(verdict(VerdictStatus.UNTIMED, seconds={"total": 3.21}))
    assert "somebodys-host" not in text and "3.21" not in text and "c" * 64 not in text


KERNEL = KernelReport(
    name="gram",
    num_warps=8,
    num_stages=3,
    registers=168,
    spill_store_bytes=None,
    spill_load_bytes=None,
    stack_bytes=0,
    shared_bytes=98304,
    tensor_memory_columns=None,
    instructions={"wgmma": 4, "tma_load": 2, "cp.async": 0},
    launches=15,
    source_line=40,
)


def test_compile_report_prints_unknown_for_what_no_tool_read() -> None:
    report = CompileReport("b200", "sm_100", "3.7.1", (KERNEL,), ("large",), not_compiled=3, warnings=("slow",))
    text = compile_text(report)
    assert "Compiles for b200 (sm_100, Triton 3.7.1)" in text
    row = next(line for line in text.splitlines() if line.startswith("gram:40"))
    assert "unknown" in row and "98,304" in row and "2 tma_load, 4 wgmma" in row and "cp.async" not in row
    assert "3 autotuner configuration(s) were left out" in text
    assert "warning: slow" in text


def test_a_compile_error_is_the_first_thing_said() -> None:
    report = CompileReport("b200", "sm_100", "3.7.1", (), (), error="shared memory: 300000 of 232448 bytes")
    assert compile_text(report).startswith("Does not compile for b200 (sm_100, Triton 3.7.1): shared memory: 300000")


def test_scripts_find_the_promised_keys_and_can_rebuild_the_verdict() -> None:
    original = verdict(VerdictStatus.INCORRECT, workloads=(failed("smoke.small"),))
    data = verdict_data(original)
    assert {"status", "eligible", "violations", "workloads", "geomean_speedup", "environment"} <= data.keys()
    assert data["eligible"] is False and data["status"] == "incorrect"
    assert {"label", "status", "checks", "mean_ms", "speedup", "rel_norm"} <= data["workloads"][0].keys()
    assert data["workloads"][0]["mean_ms"] is None
    assert from_data(Verdict, {key: value for key, value in data.items() if key != "eligible"}) == original


def test_a_file_that_is_nested_too_deeply_is_no_verdict() -> None:
    deep = json.loads("[" * 900 + "]" * 900)
    with pytest.raises(WireError, match="nested too deeply"):
        verdict_of({"environment": {"details": {"deep": deep}}})
