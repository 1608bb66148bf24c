"""A candidate under a stand-in for ncu: the real target process on a CPU, confined, and every way it can go wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from d2k_agent.contract import Bottleneck, Profile, ProfileWish, VerdictStatus
from d2k_agent.contract.archive import own_archive, program, sized
from d2k_agent.contract.frames import write_frame
from d2k_agent.evaluator.faults import CandidateFault
from d2k_agent.evaluator.profiling import ProfileUnavailable, device_clock, profile_candidate, target
from d2k_agent.evaluator.profiling.metrics import PASSES, PIPES, TENSOR
from d2k_agent.evaluator.profiling.ncu import MOST_LAUNCHES
from d2k_agent.evaluator.profiling.sections import COLD
from d2k_agent.evaluator.profiling.session import MORE_WARM_UP_CALLS, WARM_UP_CALLS
from d2k_agent.isolation import descendants
from tests.evaluator.profiling.fakes import (
    CASES,
    GENERATOR,
    WORKLOAD,
    done_without_target,
    environment,
    runs_target,
    table,
)

HONEST = "def run(x):\n    return x * 2\n"
OTHERWISE = "instruction pipes are left out: in another process run() launched otherwise"
NOT_OURS = {"TRITON_INTERPRET": "1", "SECRET": "CANARY"}


def profiled(tmp_path: Path, script: str | Path, source: str = HONEST, **changes: Any) -> Profile:
    given = {"generator": GENERATOR, "workload": WORKLOAD, "limit_s": 60.0, "unsafe": False}
    return profile_candidate(
        source,
        scratch_parent=str(tmp_path),
        environment=environment(tmp_path, script, **NOT_OURS),
        **{**given, "device": "cpu", **changes},
    )


def without(tmp_path: Path, script: str | Path, source: str = HONEST, **changes: Any) -> str:
    """The sentence for want of a profile; nothing is left behind."""
    before = set(descendants(os.getpid()))
    with pytest.raises(ProfileUnavailable) as caught:
        profiled(tmp_path, script, source, **changes)
    assert set(descendants(os.getpid())) == before
    assert not list(tmp_path.glob("ncu-*"))
    assert "\n" not in str(caught.value)
    return str(caught.value)


INSIDE = f"""
import os
import sys

calls = []


def run(x):
    calls.append(x)
    assert tuple(x.shape) == (64,) and x.device.type == "cpu"
    assert not {{"TRITON_INTERPRET", "SECRET"}} & set(os.environ)
    assert sys.stdin.read() == ""
    print('"0","forged"')
    os.write(2, b"==ERROR== ERR_NVGPUCTRPERM")
    open(os.path.join(os.getcwd(), "mine"), "w").close()
    try:
        open({str(CASES / "D03_expected.json")!r})
    except PermissionError:
        assert len(calls) <= 1 + {WARM_UP_CALLS + MORE_WARM_UP_CALLS}
        return x
    raise AssertionError("not confined")
"""


def test_the_candidate_runs_confined_and_unheard_and_the_table_becomes_a_profile(tmp_path: Path) -> None:
    script = runs_target(tmp_path, table("d2k_ready").replace('"mm"', '"ours"') + _later(table("d2k_run")))
    profile = profiled(tmp_path, script, INSIDE)
    assert (profile.workload, profile.tool, profile.notes) == ("small", "ncu 2025.3.1.0", ())
    assert [(kernel.name, kernel.launches) for kernel in profile.kernels] == [("mm", 2)]
    assert not list(tmp_path.glob("ncu-*"))


def _later(text: str) -> str:
    """The rows of a table with ids that come after another's."""
    return "".join(
        line.replace('"0",', '"7",', 1).replace('"1",', '"8",', 1)
        for line in text.splitlines(keepends=True)
        if line.startswith(('"0",', '"1",'))
    )


FROM_ARCHIVE = """
import json
from d2k_agent.evaluator.profiling import device_clock
given = json.loads(take(int.from_bytes(take(8), "little")))
print(device_clock(given.pop("source"), given.pop("generator"), given.pop("workload"), **given)[0])
"""


def test_the_device_clock_is_the_sum_of_the_kernels_also_where_nothing_of_ours_is_installed(tmp_path: Path) -> None:
    given = {
        "source": HONEST,
        "generator": GENERATOR,
        "workload": WORKLOAD,
        "scratch_parent": str(tmp_path),
        "limit_s": 60.0,
        "unsafe": False,
        "environment": environment(tmp_path, runs_target(tmp_path, table("d2k_run"))),
        "device": "cpu",
    }
    done = subprocess.run(
        [sys.executable, "-P", "-c", program(FROM_ARCHIVE)],
        input=sized(own_archive()) + sized(json.dumps(given).encode()),
        capture_output=True,
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "OPENBLAS_NUM_THREADS": "1"},
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert float(done.stdout) == pytest.approx(0.393536)


def test_what_the_candidate_raises_is_its_own_fault(tmp_path: Path) -> None:
    source = "def run(x):\n    return x.nothing\n"
    with pytest.raises(CandidateFault, match=r"warm up raised AttributeError \(solution.py line 2\)") as caught:
        profiled(tmp_path, runs_target(tmp_path, table("d2k_ready")), source)
    assert caught.value.status is VerdictStatus.RUNTIME_ERROR
    assert not list(tmp_path.glob("ncu-*"))


def test_counters_kept_to_administrators_are_one_sentence(tmp_path: Path) -> None:
    """Case D01: the program runs to its end, and the exit status is 0."""
    assert "NVreg_RestrictProfilingToAdminUsers=0" in without(tmp_path, CASES / "D01_fake_ncu_noperm.sh")


def test_no_profiler_is_said(tmp_path: Path) -> None:
    """Case D02a."""
    with pytest.raises(ProfileUnavailable, match=r"not found on the PATH.*install it"):
        profile_candidate(
            HONEST, GENERATOR, WORKLOAD, scratch_parent=str(tmp_path), limit_s=5.0, unsafe=False, environment={}
        )


def test_a_profiler_that_hangs_is_ended(tmp_path: Path) -> None:
    """Case D02b."""
    said = without(tmp_path, CASES / "D02_fake_ncu_hang.sh", limit_s=1.0)
    assert "within 1 s, before the candidate began" in said
    assert "try again" in said


def test_a_profiler_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    """Case D04, with 138 trial launches that a target of ours does not have in its range."""
    script = f"#!/bin/sh\nexec env FAKE_NCU_SECONDS=60 {sys.executable} {CASES / 'D04_fake_ncu_autotune.py'}\n"
    assert "within 2 s" in without(tmp_path, script, limit_s=2.0)


def test_no_kernels_is_no_empty_success(tmp_path: Path) -> None:
    """Case D03c."""
    said = without(tmp_path, runs_target(tmp_path, (CASES / "D03c_no_kernels.txt").read_text()))
    assert "no kernels were profiled" in said
    assert "child processes are not followed" in said


def test_kernels_that_the_candidate_has_interpreted_are_none(tmp_path: Path) -> None:
    """Case D07: the switch is not inherited, and a candidate that sets it itself launches nothing."""
    source = (CASES / "D07_interpreter_switch.py").read_text()
    said = without(tmp_path, runs_target(tmp_path, table("d2k_ready")), source)
    assert "run() launched none on the GPU" in said


def test_a_counter_that_this_gpu_does_not_have_is_left_out(tmp_path: Path) -> None:
    refuse = f'case "$options" in *{TENSOR}*) echo "==ERROR== Failed to find metric {TENSOR}"; exit 1 ;; esac'
    profile = profiled(tmp_path, runs_target(tmp_path, table("d2k_run"), refuse))
    assert profile.kernels[0].sm_percent is not None
    assert profile.notes == ("1 counter(s) are not known for this GPU: what they say is left out",)


def test_a_kernel_that_the_profiler_failed_on_is_told_and_leaves_no_clock(tmp_path: Path) -> None:
    """A clock of a part, and a list of fewer kernels than were captured, would accuse who did nothing wrong."""
    one = "".join(line for line in table("d2k_run").splitlines(keepends=True) if not line.startswith('"1"'))
    output = one + '==ERROR== Failed to profile "mm" in process 661\n'
    script = runs_target(tmp_path, output, f"{done_without_target(tmp_path)}; cat {tmp_path / 'output'}; exit")
    profile = profiled(tmp_path, script)
    assert profile.kernels[0].launches == 1
    assert len(profile.notes) == 1 and 'Failed to profile "mm"' in profile.notes[0]
    given: dict[str, Any] = {"scratch_parent": str(tmp_path), "limit_s": 60.0, "unsafe": False, "device": "cpu"}
    with pytest.raises(ProfileUnavailable, match=r"Failed to profile .mm."):
        device_clock(HONEST, GENERATOR, WORKLOAD, environment=environment(tmp_path, script), **given)


def _counted(text: str, name: str, unit: str, cell: str) -> str:
    """A table with one more counter, of which every launch has the same."""
    cells = {'"ID"': name, '""': unit, '"0"': cell, '"1"': cell}
    lines = text.splitlines()
    return "".join(
        f'{line},"{cells[line.split(",")[0]]}"\n' if line.split(",")[0] in cells else f"{line}\n" for line in lines
    )


def _of_launches(tmp_path: Path, count: int) -> str:
    """A profiler that prints so many launches of the call, each with an id of its own."""
    head, *rows = table("d2k_run").partition('"0",')
    row = "".join(rows).splitlines(keepends=True)[0]
    (tmp_path / "many").write_text(head + "".join(row.replace('"0",', f'"{number}",', 1) for number in range(count)))
    return runs_target(tmp_path, "", f"{done_without_target(tmp_path)}; cat {tmp_path}/many; exit")


def test_a_call_of_as_many_kernels_as_are_profiled_is_whole(tmp_path: Path) -> None:
    whole, cut = (profiled(tmp_path, _of_launches(tmp_path, count)) for count in (MOST_LAUNCHES, MOST_LAUNCHES + 1))
    assert (whole.kernels[0].launches, whole.notes) == (MOST_LAUNCHES, ())
    assert cut.kernels[0].launches == MOST_LAUNCHES
    assert cut.notes == (f"run() launched more than {MOST_LAUNCHES} kernels: only the first 512 were profiled",)


def test_how_often_launches_ran_is_told_where_it_is_more_than_once(tmp_path: Path) -> None:
    """By the profiler's own counter: it prints no progress beside a table."""
    once = _counted(table("d2k_run"), PASSES, "pass", "1")
    profile = profiled(tmp_path, runs_target(tmp_path, once))
    assert (profile.passes, profile.notes) == (1, ())
    thrice = _counted(table("d2k_run"), PASSES, "pass", "3")
    profile = profiled(tmp_path, runs_target(tmp_path, thrice))
    assert profile.passes == 3
    assert [note.split(" for its")[0] for note in profile.notes] == ["each kernel ran 3 times"]
    assert profiled(tmp_path, runs_target(tmp_path, table("d2k_run"))).passes is None


def test_instruction_pipes_are_read_in_a_run_of_their_own(tmp_path: Path) -> None:
    """Whose durations and other counters are not those of the profile."""
    alu = list(PIPES)[1]
    busy = _counted(table("d2k_run"), alu, "%", "88.5")
    (tmp_path / "busy").write_text(busy.replace("393,536", "900,000"))
    pipes = f'case "$options" in *{alu}*) {done_without_target(tmp_path)}; cat {tmp_path}/busy; exit ;; esac'
    plain = profiled(tmp_path, runs_target(tmp_path, table("d2k_run")))
    profile = profiled(tmp_path, runs_target(tmp_path, table("d2k_run"), pipes))
    assert profile.duration_us == plain.duration_us
    assert (profile.kernels[0].pipe, profile.kernels[0].pipe_percent) == (PIPES[alu], 88.5)
    assert profile.diagnosis is not None and profile.diagnosis.bottleneck is Bottleneck.PIPE
    assert plain.kernels[0].pipe_percent != 88.5


def test_without_the_instruction_pipes_the_profile_says_so(tmp_path: Path) -> None:
    alu = list(PIPES)[1]
    failed = f'case "$options" in *{alu}*) cat > /dev/null; echo "==ERROR== out of registers"; exit 1 ;; esac'
    profile = profiled(tmp_path, runs_target(tmp_path, table("d2k_run"), failed))
    assert len(profile.notes) == 1 and profile.notes[0].startswith("instruction pipes are left out: ")
    (tmp_path / "other").write_text(table("d2k_run").replace('"mm"', '"nn"'))
    other = f'case "$options" in *{alu}*) {done_without_target(tmp_path)}; cat {tmp_path}/other; exit ;; esac'
    profile = profiled(tmp_path, runs_target(tmp_path, table("d2k_run"), other))
    assert profile.notes == (OTHERWISE,)
    (tmp_path / "other").write_text(table("d2k_run").replace("(32, 16, 1)", "(32, 8, 1)", 1))
    assert profiled(tmp_path, runs_target(tmp_path, table("d2k_run"), other)).notes == (OTHERWISE,)


def test_pipes_that_this_gpu_does_not_have_are_told_as_left_out(tmp_path: Path) -> None:
    """Also where so many are refused that only what every GPU counts is asked for at last."""
    refused = "".join(
        f'case "$options" in *{name}*) echo "==ERROR== Failed to find metric {name}"; exit 1 ;; esac\n'
        for name in PIPES
    )
    profile = profiled(tmp_path, runs_target(tmp_path, table("d2k_run"), refused))
    assert profile.notes == ("6 counter(s) are not known for this GPU: what they say is left out",)


def test_sections_are_read_for_the_longest_kernel_in_runs_of_their_own(tmp_path: Path) -> None:
    page = CASES / "source_documented.csv"
    log = f"""
echo "$options" | head -1 >> {tmp_path}/asked
case "$options" in
  *"--page source"*) {done_without_target(tmp_path)}; cat {page}; exit ;;
  *--kernel-name*) {done_without_target(tmp_path)}; cat {tmp_path}/output; exit ;;
esac"""
    output = table("d2k_ready").replace('"mm"', '"void at::fill_kernel<int>(int)"') + _later(table("d2k_run"))
    wish = ProfileWish(("memory", "source"))
    profile = profiled(tmp_path, runs_target(tmp_path, output, log), wish=wish)
    (kernel,) = profile.kernels
    assert (profile.sections, profile.notes) == (("memory", "source"), (COLD,))
    assert kernel.section_launches == kernel.launches == 2
    assert kernel.counters["dram__bytes_read.sum"] == pytest.approx(174.0e6, rel=0.01)
    assert [line.line for line in kernel.hot_lines] == [12, 14, 20]
    first, pipes, second, third = (tmp_path / "asked").read_text().splitlines()
    assert all("--kernel-name" not in words and "dram__bytes_read" not in words for words in (first, pipes))
    assert not any(name in first for name in PIPES) and all(name in pipes for name in PIPES)
    assert "dram__bytes_read.sum" in second and "--page source" in third
    assert all("--kernel-name regex:^(mm|fill_kernel)$" in words for words in (second, third))
    assert "--cache-control none" in first and "--cache-control all" in second and "--cache-control all" in third


def test_a_candidate_that_ends_under_the_sections_alone_keeps_its_profile(tmp_path: Path) -> None:
    """Time that runs out in its warm-up is told in the same way."""
    warming = tmp_path / "warming"
    with warming.open("w+b") as file:
        write_frame(file.fileno(), target.STAGE, target.WARMING.encode())
    refuse = f"""
case "$options" in
  *--kernel-name*) cat > /dev/null; cat {warming} > report; exit ;;
  *) {done_without_target(tmp_path)}; cat {tmp_path}/output; exit ;;
esac"""
    profile = profiled(tmp_path, runs_target(tmp_path, table("d2k_run"), refuse), wish=ProfileWish(("memory",)))
    assert [kernel.name for kernel in profile.kernels] == ["mm"]
    assert profile.notes == (
        COLD,
        "sections are left out: the candidate's process ended during calling run() to warm up",
        "no counters of sections for mm: the profiler told none",
    )


def test_no_gpu_is_said(tmp_path: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    said = without(tmp_path, runs_target(tmp_path, ""), device="cuda")
    assert "it needs a GPU" in said


@pytest.mark.gpu
def test_on_a_gpu_the_kernel_is_profiled_and_its_clock_agrees(tmp_path: Path) -> None:
    from tests.evaluator.scaling import HONEST as SCALING
    from tests.evaluator.scaling import task

    generator, workload = task().public["get_inputs.py"], {"label": "large", "n": 1 << 26}
    given: dict[str, Any] = {"scratch_parent": str(tmp_path), "limit_s": 120.0, "unsafe": False}
    profile = profile_candidate(SCALING, generator, workload, **given, wish=ProfileWish(("scheduler",)))
    (kernel,) = profile.kernels
    assert (kernel.name, kernel.launches) == ("_scale", 1)
    assert kernel.dram_percent is not None and kernel.dram_percent > 20
    assert kernel.occupancy_limiter and kernel.main_stall, profile.notes
    clock, kernels = device_clock(SCALING, generator, workload, **given)
    assert clock == pytest.approx(profile.duration_us / 1e3, rel=0.3)
    assert kernels == {"_scale": 1}
