"""Whose fault it is that there is no profile, told from how far the target came and what the profiler said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from d2k_agent.contract import VerdictStatus
from d2k_agent.contract.frames import write_frame
from d2k_agent.evaluator.candidate import describe
from d2k_agent.evaluator.faults import CandidateFault, TaskFault
from d2k_agent.evaluator.process import IsolationRefused
from d2k_agent.evaluator.profiling import target
from d2k_agent.evaluator.profiling.ncu import Finished
from d2k_agent.evaluator.profiling.report import missing, read_progress, require_done
from d2k_agent.evaluator.profiling.unavailable import PERMISSION, ProfileUnavailable

CONFINED = (target.CONFINED, b"seccomp")
LOADING, WARMING, PROFILING = [
    (target.STAGE, stage.encode()) for stage in (target.LOADING, target.WARMING, target.PROFILING)
]
RAISED = (target.RAISED, json.dumps(describe(ValueError("no such shape"))).encode())
BAD_WORDS = '==PROF== Connected\n==ERROR== Failed to profile "mm" in process 7\n'


def judged(tmp_path: Path, *frames: tuple[bytes, bytes], output: str = "", late: bool = False) -> None:
    path = tmp_path / "report"
    with path.open("w+b") as report:
        for kind, payload in frames:
            write_frame(report.fileno(), kind, payload)
        require_done(read_progress(report.fileno()), Finished(output, late), 30.0)


def test_a_call_that_came_to_its_end_can_be_read(tmp_path: Path) -> None:
    judged(tmp_path, CONFINED, LOADING, WARMING, PROFILING, (target.DONE, b""))


@pytest.mark.parametrize(
    ("frames", "output", "late", "status", "said"),
    [
        ([LOADING, RAISED], "", False, VerdictStatus.RUNTIME_ERROR, "importing solution.py raised ValueError"),
        ([LOADING, WARMING, RAISED], BAD_WORDS, False, VerdictStatus.RUNTIME_ERROR, "warm up raised .* no such shape"),
        ([LOADING, WARMING, PROFILING, RAISED], "", False, VerdictStatus.RUNTIME_ERROR, "the profiled call of run"),
        ([LOADING, WARMING], "", False, VerdictStatus.ENDED_EARLY, "process ended during calling run.. to warm up"),
        ([LOADING, WARMING, PROFILING], "", False, VerdictStatus.ENDED_EARLY, "ended during the profiled call"),
        ([LOADING, WARMING], "", True, VerdictStatus.TIMED_OUT, "to warm up did not finish within 30 s"),
        ([LOADING, (target.RAISED, b"{")], "", False, VerdictStatus.ENDED_EARLY, "out of protocol"),
    ],
)
def test_what_the_candidate_did_is_its_fault(
    tmp_path: Path,
    frames: list[tuple[bytes, bytes]],
    output: str,
    late: bool,
    status: VerdictStatus,
    said: str,
) -> None:
    with pytest.raises(CandidateFault, match=said) as caught:
        judged(tmp_path, CONFINED, *frames, output=output, late=late)
    assert caught.value.status is status


@pytest.mark.parametrize(
    ("frames", "output", "late", "said"),
    [
        ([], "", False, "did not carry its target through: it printed nothing"),
        ([], "Traceback\nNo module named torch\n", False, "through: Traceback / No module named torch"),
        ([], BAD_WORDS, True, 'before the candidate began.*Failed to profile "mm".*try again'),
        ([(target.UNABLE, b"the GPU has no room")], BAD_WORDS, False, 'the GPU has no room; Failed to profile "mm"'),
        ([LOADING, WARMING, PROFILING, RAISED], BAD_WORDS, False, 'under the profiler only.*Failed to profile "mm"'),
        ([LOADING, WARMING, PROFILING], BAD_WORDS, False, 'Failed to profile "mm"'),
        ([LOADING, WARMING, PROFILING], "", True, "every kernel is replayed.*smaller workload"),
        ([LOADING, WARMING, PROFILING, (target.DONE, b"")], "", True, "run.. was done, but the profiler"),
    ],
)
def test_what_the_profiler_did_is_not(
    tmp_path: Path, frames: list[tuple[bytes, bytes]], output: str, late: bool, said: str
) -> None:
    with pytest.raises(ProfileUnavailable, match=said):
        judged(tmp_path, CONFINED, *frames, output=output, late=late)


def test_missing_permission_is_said_first_and_whatever_the_exit(tmp_path: Path) -> None:
    """Case D01."""
    denied = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access ...\n"
    for frames in ([], [LOADING, WARMING, PROFILING, (target.DONE, b"")], [LOADING, WARMING, PROFILING, RAISED]):
        with pytest.raises(ProfileUnavailable) as caught:
            judged(tmp_path, CONFINED, *frames, output=denied)
        assert str(caught.value) == PERMISSION


@pytest.mark.parametrize(
    "printed",
    [
        '"0","661","python3.12","mm_ERR_NVGPUCTRPERM","1"\n',
        '==PROF== Profiling "mm_ERR_NVGPUCTRPERM" - 0: 0%....50%....100% - 1 pass\n',
        '==PROF== Profiling "==ERROR== ERR_NVGPUCTRPERM" - 0: 0%....50%....100% - 1 pass\n',
        '==ERROR== Failed to profile "mm_ERR_NVGPUCTRPERM" in process 661\n',
    ],
)
def test_a_kernels_name_is_no_word_about_permission(tmp_path: Path, printed: str) -> None:
    judged(tmp_path, CONFINED, PROFILING, (target.DONE, b""), output=printed)


@pytest.mark.parametrize(
    ("printed", "errors"),
    [
        ("==ERROR== one\nx ==ERROR== two\n", ["one"]),
        ('==PROF== Profiling "mm" - 3: 0%....50%==ERROR== broken off\n', ["broken off"]),
        ('"0","661","==ERROR== three"\n', []),
    ],
)
def test_an_error_has_a_line_or_breaks_off_a_launchs(printed: str, errors: list[str]) -> None:
    assert Finished(printed, False).errors() == errors


def test_what_is_missing_after_a_call_is_told_and_its_exit_status_is_not() -> None:
    assert missing(Finished("==PROF== Connected\n", False)) == []
    assert missing(Finished("==ERROR== The application returned an error code (1).\n", False)) == []
    assert missing(Finished("==ERROR== Failed to find metric nothing__here\n", False)) == []
    (failed,) = missing(Finished(BAD_WORDS, False))
    assert failed.endswith('which is missing: Failed to profile "mm" in process 7')
    (cut,) = missing(Finished("", False, cut=True))
    assert "printed more than 32 MiB" in cut


def test_the_tasks_and_the_machines_own_failures(tmp_path: Path) -> None:
    with pytest.raises(TaskFault, match=r"get_inputs.py raised"):
        judged(tmp_path, CONFINED, (target.BROKEN_TASK, b"get_inputs.py raised ZeroDivisionError: x"))
    with pytest.raises(IsolationRefused, match="landlock"):
        judged(tmp_path, (target.REFUSED, b"no isolation for a candidate: landlock"))


def test_a_report_that_the_candidate_spoilt_is_bounded(tmp_path: Path) -> None:
    """The candidate has the descriptor, and may write to it what it likes."""
    path = tmp_path / "report"
    with path.open("w+b") as report:
        write_frame(report.fileno(), *LOADING)
        for _ in range(100):
            write_frame(report.fileno(), target.STAGE, b"x" * 1000)
        assert read_progress(report.fileno()).stage == "x" * 100
        report.truncate(0)
        report.seek(0)
        write_frame(report.fileno(), *LOADING)
        write_frame(report.fileno(), target.RAISED, b"x" * (1 << 20))
        assert read_progress(report.fileno()).kind == target.STAGE
