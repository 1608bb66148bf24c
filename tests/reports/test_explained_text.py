"""The page that explains a verdict: what decided, every step, every number with its limit, and nothing made up."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields, replace

import pytest

from d2k_agent.contract import Check, CompileReport, Verdict, VerdictStatus, WorkloadResult
from d2k_agent.evaluator.profiling import jobs
from d2k_agent.evaluator.timing import policy
from d2k_agent.reports.explained_text import NEXT, explained_text
from d2k_agent.reports.tolerances import TOLERANCES
from tests.reports.explained import (
    COMMITMENT,
    REPORT,
    SERIES,
    confirmed,
    forbidden,
    incorrect,
    kernel,
    noisy,
    refused,
    untimed,
)

KINDS = (confirmed, untimed, forbidden, incorrect, noisy, refused)


def section(text: str, title: str) -> str:
    (found,) = [part for part in text.split("\n\n") if part.startswith(title)]
    return found


def row(text: str, first: str) -> str:
    """The first line that begins with a word, its runs of blanks made one."""
    return " ".join(next(line for line in text.splitlines() if line.split()[:1] == [first]).split())


@pytest.mark.parametrize("kind", KINDS)
def test_every_page_has_the_same_sections_and_fits_a_screen(kind: Callable[[], Verdict]) -> None:
    text = explained_text(kind())
    order = ["Status:", "Checked, in this order", "Latencies", "Memory", "Kernels", "Machine and digests"]
    places = [text.index(title) for title in order]
    assert places == sorted(places)
    assert text.count("Decided by: ") == text.count("Next: ") == 1
    assert max(map(len, text.partition("Decided by")[2].splitlines())) <= 120
    assert len(text.splitlines()) < 80
    assert not re.search(r"\bNone\b|\bnan\b", text)


def test_every_status_has_a_way_on() -> None:
    assert set(NEXT) == set(VerdictStatus)


def test_tolerances_are_those_of_the_evaluator() -> None:
    assert set(TOLERANCES) == {item.id for item in policy.POLICIES.values()}
    for item in policy.POLICIES.values():
        told = TOLERANCES[item.id]
        assert (told.wall, told.audit, told.noise) == (item.wall, item.audit, item.noise)
        assert told.audit_step_ms == policy.AUDIT_STEP_MS
        assert (told.device, told.device_ms) == (jobs.MOST_SURPLUS, jobs.SURPLUS_MS)
        assert len(fields(told)) == 6, "a new tolerance is compared here as well"


def test_passed_shows_four_clocks_with_gaps_tolerances_and_circumstances() -> None:
    text = explained_text(confirmed())
    assert "Status: passed\ncorrect and measured\nDecided by: nothing: no check failed" in text
    assert "Note: small was timed again" in text
    header, small = row(text, "workload"), row(text, "small")
    assert header.split() == ["workload", "claim", "outside", "audit", "device", "baseline", "speedup"]
    assert small == "small 12.35 ms 12.36 ms +0.1 % 12.47 ms +1.0 % 11.9 ms -3.6 % 24.69 ms 2x"
    assert row(text, "outside") == "outside within 1 % of the claim in the best batch (shown is the mean of all)"
    assert "at most 3 %, and 0.05 ms a step" in row(text, "audit")
    assert "at most 50 %, and 0.02 ms, above the claim" in text
    assert "at most 3 % apart" in row(text, "noise")
    assert "Baseline 0123456789ab (sha256 of its source): it moved by 0.4 %" in text and "at most 2 %" in text
    assert "Geometric mean speedup over it: 2x" in text


def test_each_latency_says_under_which_circumstances_it_was_measured() -> None:
    lines = [" ".join(line.split()) for line in explained_text(confirmed()).splitlines()]
    assert "workload policy calls batches sets SM clock power" in lines
    assert "small events_batch 80 5 4 1980 MHz 688 W" in lines


def test_on_a_gpu_the_late_variations_belong_to_timing_and_its_parts_are_counted() -> None:
    steps = section(explained_text(confirmed()), "Checked")
    assert row(steps, "late").startswith("late see timing - ")
    assert row(steps, "timing").startswith("timing passed 1 min 35 s")
    parts = [" ".join(line.split()) for line in steps.splitlines() if line.strip().startswith("-")]
    assert [line.partition(" of it")[0] for line in parts] == [
        "- tuning 2.5 s",
        "- tuning 1.0 s",
        "- tuning 30.0 s",
        "- timed 41.0 s",
    ]
    assert row(steps, "device").startswith("device clock passed 12.0 s")


def test_without_a_confirmation_there_is_no_column_of_the_device_clock_but_a_reason() -> None:
    whole = confirmed()
    workloads = tuple(
        item if item.measurement is None else replace(item, measurement=replace(item.measurement, device_ms=None))
        for item in whole.workloads
    )
    seconds = {name: value for name, value in whole.seconds.items() if name != "device clock"}
    text = explained_text(replace(whole, workloads=workloads, seconds=seconds))
    assert "device" not in row(text, "workload")
    assert "read only when a run's winner is confirmed" in text
    assert "device clock did not run - only when" in row(section(text, "Checked"), "device")


def test_a_profiler_that_nobody_needed_had_nothing_to_do() -> None:
    whole = confirmed()
    results = tuple(
        replace(item, measurement=replace(item.measurement, device_ms=None)) if item.measurement else item
        for item in whole.workloads
    )
    steps = section(explained_text(replace(whole, workloads=results)), "Checked")
    assert row(steps, "device").startswith("device clock nothing to do")


def test_a_baseline_that_moved_too_far_and_one_that_was_not_measured_again_are_told_apart() -> None:
    whole = confirmed()
    workloads = tuple(replace(item, speedup=None) for item in whole.workloads)
    moved = explained_text(replace(whole, workloads=workloads, geomean_speedup=None, drift=0.031))
    assert "moved by 3.1 %" in moved and "there are no speedups" in moved and "unknown" in row(moved, "small")
    assert "whether it moved was not measured" in explained_text(replace(whole, drift=None))


def test_a_policy_that_is_not_known_here_has_no_tolerances() -> None:
    whole = confirmed()
    workloads = tuple(
        item if item.measurement is None else replace(item, measurement=replace(item.measurement, policy="events_9"))
        for item in whole.workloads
    )
    text = explained_text(replace(whole, workloads=workloads))
    assert "Tolerances of events_9: not known here" in text and "1 %" not in section(text, "  Tolerances")


def test_untimed_says_once_that_nothing_was_measured_and_prints_no_number_for_it() -> None:
    text = explained_text(untimed())
    assert text.count("nothing was measured") == 1
    assert "nothing was measured: candidates ran on the CPU (no clock, baseline, drift or speedup)" in text
    assert "0 ms" not in text and "unknown ms" not in text and "Baseline" not in text and "driver" not in text
    assert "timing did not run - nothing is timed on a CPU" in row(section(text, "Checked"), "timing")
    assert "--evaluator" in text


def test_a_page_on_several_ranks_says_how_many_and_where_and_advises_for_them() -> None:
    whole = untimed()
    environment = replace(whole.environment, details={**whole.environment.details, "ranks": 2})
    text = explained_text(replace(whole, environment=environment))
    assert "2 ranks, a process each, on the CPU, where no link is counted" in section(text, "Machine and digests")
    assert "a GPU a rank (`--gpu 0,1` names two)" in text
    series = section(text, "Series of calls")
    assert "one rank was held up" in series and "calls without a pause" in series and "filled with NaN" in series
    assert "rank" not in explained_text(whole).replace("not ranked", "")


def test_variations_of_which_none_ran_are_not_called_passed() -> None:
    whole = untimed()
    without = replace(whole, seconds={name: took for name, took in whole.seconds.items() if name != "late"})
    registered = WorkloadResult("large", VerdictStatus.UNTIMED, registered=True)
    for results, why in (
        ((registered,), "none of this task is for a CPU"),
        ((), "smoke workloads alone were asked for"),
    ):
        text = explained_text(replace(without, workloads=(*SERIES, *results)))
        assert row(section(text, "Checked"), "late") == f"late did not run - {why}"


def test_series_have_their_calls_and_each_gate_its_worst_value_beside_the_limit() -> None:
    text = explained_text(untimed())
    found = section(text, "Series of calls")
    assert row(found, "smoke.small") == "smoke.small 12 calls correct 0.003"
    gates = [" ".join(line.split()) for line in section(text, "Worst value").splitlines()]
    assert "result rel_norm 0.006 0.012 50 % hidden.scaled" in gates
    assert "result allclose_share 1 - reported only smoke.small" in gates
    assert not any("memory" in line for line in gates)


def test_memory_read_from_outside_is_told_where_it_was_read() -> None:
    whole = untimed()
    held = [Check("*", "device_memory", float(size << 20), None, True) for size in (3, 5)]
    first = replace(whole.workloads[-1], checks=(*whole.workloads[-1].checks, *held))
    memory = section(explained_text(replace(whole, workloads=(*whole.workloads[:-1], first))), "Memory")
    assert f"in use than before, as read from outside: 5.0 MiB ({first.label})" in memory


def test_of_a_share_that_must_be_large_the_smallest_is_the_worst() -> None:
    whole = untimed()
    near = Check("result", "allclose_share", 0.91, 0.9, True)
    other = replace(whole.workloads[-1], checks=(near,))
    gates = section(explained_text(replace(whole, workloads=(*whole.workloads, other))), "Worst value")
    assert "0.91" in gates


def test_memory_stands_beside_the_tasks_cap() -> None:
    memory = section(explained_text(untimed()), "Memory")
    assert "held: 6.1 MiB, at the small shapes that a CPU is given" in memory
    assert "cap: 69.0 KiB, 64.0 MiB allowed (smoke.small)" in memory
    assert "Copied by PyTorch in a call: 0 B, 7.0 KiB allowed" in memory
    assert "from outside" not in memory
    assert "no call of run() came to its end" in section(explained_text(forbidden()), "Memory")


def test_kernels_say_what_they_take_and_which_no_launch_reached() -> None:
    kernels = section(explained_text(untimed()), "Kernels")
    assert row(kernels, "gram:40") == "gram:40 unknown 20 2 8 168 unknown 0 98,304"
    assert "gram: 1 more variant compiled that no launch chose" in kernels
    assert "spare: compiled, and no launch reached it" in kernels
    assert "3 autotuner configurations left out" in kernels
    assert "warning: kernel gram multiplies" in kernels


def test_rows_of_kernels_have_the_numbers_of_their_workloads_where_there_are_several() -> None:
    grids = {"large": ((4, 1, 1),), "small": ((1, 1, 1),)}
    alike = replace(kernel(), grids=grids), replace(kernel(), grids={"large": ((9, 1, 1),)})
    other = replace(kernel("norm"), grids={"large": ((4, 1, 1),)})
    whole = untimed()
    kernels = section(
        explained_text(replace(whole, compile_report=replace(REPORT, kernels=(*alike, other)))), "Kernels"
    )
    assert "at: 1 small, 2 large" in kernels
    assert row(kernels, "gram:40").startswith("gram:40 1,2 30 2 ") and row(kernels, "norm:40").startswith(
        "norm:40 2 15 "
    )
    one = replace(REPORT, workloads=("small",), kernels=alike[:1])
    assert "at small\n" in section(explained_text(replace(whole, compile_report=one)), "Kernels")
    failed = replace(REPORT, workloads=("small",), error="it does not fit at large", kernels=(*alike, other))
    kernels = section(explained_text(replace(whole, compile_report=failed)), "Kernels")
    assert "not all compiled" in kernels and "at: 1 small, 2 large" in kernels
    assert row(kernels, "norm:40").startswith("norm:40 2 15 ")


def test_kernels_that_were_seen_to_run_and_libraries_stand_below_what_was_compiled() -> None:
    whole = confirmed()
    results = (replace(whole.workloads[0], kernels={"gram": 15, "norm": 1}), *whole.workloads[1:])
    kernels = section(explained_text(replace(whole, workloads=results, libraries=("cuda_utils.so",))), "Kernels")
    assert f"one call on {results[0].label} launched: gram x15, norm x1" in kernels
    assert f"one call on {results[1].label} launched: not read" in kernels
    assert "loaded beside what was there: cuda_utils.so" in kernels
    assert "launched" not in section(explained_text(untimed()), "Kernels")


def test_a_rule_violation_names_check_line_and_the_steps_that_it_spared() -> None:
    text = explained_text(forbidden())
    assert "Decided by: static.tensor_math at line 12, in the step static" in text
    assert "line 12, static.tensor_math: use a kernel" in text
    steps = section(text, "Checked")
    assert row(steps, "static").startswith("static failed 0.1 s")
    assert row(steps, "compile") == "compile did not run - static decided before"
    assert "Series of calls" not in text and "Worst value" not in text
    assert "nothing was compiled: the step static decided before" in text
    assert "No code of the candidate was executed." in text


def test_a_wrong_hidden_variation_is_told_as_far_as_the_verdict_tells_it() -> None:
    text = explained_text(incorrect())
    assert "Decided by: result rel_norm on hidden.shifted, in the step late" in text
    assert "hidden.shifted: result rel_norm = 0.345 (limit 0.012)" in text
    assert row(section(text, "Series"), "hidden.shifted") == "hidden.shifted cut short incorrect 0.345"
    assert "result rel_norm 0.345 0.012 failed hidden.shifted" in " ".join(section(text, "Worst").split())
    assert row(section(text, "Checked"), "late").startswith("late failed 23.8 s")
    assert "the step late decided before" in section(text, "Latencies")


def test_noise_is_nobodys_fault() -> None:
    text = explained_text(noisy())
    assert "Decided by: noisy on small, in the step timing" in text
    assert row(section(text, "Checked"), "timing").startswith("timing did not settle")
    assert "more than the noise allowed" in section(text, "Latencies")
    assert "hand it in again" in text


def test_a_refused_latency_comes_with_the_tolerance_that_it_failed_and_what_to_change() -> None:
    text = explained_text(refused())
    assert "Decided by: timing.audit, in the step timing" in text
    assert "5.1 ms a call when every step is checked, 2.5 ms claimed" in text
    assert "the step timing refused what it measured" in text
    assert "Tolerances of events_batch and graph_rotating:" in text and "at most 3 %, and 0.05 ms a step" in text
    assert "Next: have run() do its whole work in every call" in text


def test_the_machine_its_versions_and_all_digests_are_there() -> None:
    machine = section(explained_text(confirmed()), "Machine")
    assert "somebodys-host; NVIDIA H200, driver 580.1, CUDA 13.0, GPU-1234" in machine
    assert "torch 2.11, triton 3.6, Python 3.12; compiled for h200" in machine
    assert "confined by landlock" in machine and "/secret" not in machine
    assert "source aaaaaaaaaaaa, task tttttttttttt, evaluator eeeeeeeeeeee" in machine
    assert f"seed commitment {COMMITMENT}" in machine and "publish it later" in machine


def test_a_compiler_error_is_said_once_and_first() -> None:
    told = "kernel gram needs 300000 bytes of shared memory, the target has 232448"
    report = CompileReport("b200", "sm_100", "3.7.1", (), ("small",), error=told, error_kind="compile")
    failed = replace(
        untimed(),
        status=VerdictStatus.COMPILE_ERROR,
        message=told,
        workloads=(),
        compile_report=report,
        seconds={"static": 0.1, "compile": 9.0},
    )
    text = explained_text(failed)
    assert text.count(told) == 1 and text.index(told) < text.index("Checked")
    assert "Decided by: compile_error, in the step compile" in text
    assert "not all compiled for b200 (sm_100, Triton 3.7.1): as said above" in text


def test_host_code_that_could_not_be_captured_is_no_failure_of_the_compiler() -> None:
    report = replace(
        untimed().compile_report or CompileReport("", "", "", (), ()), error="run() raised", error_kind="run"
    )
    steps = section(explained_text(replace(incorrect(), compile_report=report)), "Checked")
    assert row(steps, "compile").startswith("compile not captured") and "precision nothing to do" in row(
        steps, "precision"
    )


def test_where_nothing_was_compiled_no_step_says_that_it_was() -> None:
    whole = untimed()
    last = whole.workloads[-1]
    repeat = replace(last, checks=(*last.checks, Check("*", "repeat", None, None, True)))
    text = explained_text(replace(whole, compile_report=None, workloads=(*whole.workloads[:-1], repeat)))
    assert row(section(text, "Checked, in this order"), "captured").startswith("captured nothing to do")
    assert "nothing was compiled: it was not asked for" in section(text, "Kernels")
    assert "compiled for" not in section(text, "Machine")
    assert "* repeat - - passed" in " ".join(text.split()), "it decides, and has no number"


def test_a_step_of_another_evaluator_is_shown_and_decides_nothing_that_came_after_it() -> None:
    text = explained_text(replace(incorrect(), seconds={"static": 0.1, "warming": 2.0, "correctness": 3.0}))
    assert "in the step correctness" in text
    assert row(section(text, "Checked"), "warming") == "warming passed 2.0 s"


def test_a_verdict_without_durations_says_so() -> None:
    died = replace(forbidden(), status=VerdictStatus.RUNTIME_ERROR, violations=(), seconds={})
    text = explained_text(died)
    assert "The verdict does not say which steps ran." in text
    assert "Decided by: runtime_error\n" in text and "nothing was compiled: the candidate failed before" in text
    assert "nothing was measured: the candidate failed before" in text
