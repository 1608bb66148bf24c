"""The winner is measured again: both numbers are kept, a winner that fails gives way, and a crash repeats nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from d2k_agent.app.incumbent import Incumbent
from d2k_agent.contract import Verdict, VerdictStatus, source_sha256
from d2k_agent.errors import MachineError
from d2k_agent.records import (
    ConfirmationMeasured,
    ConfirmationReached,
    Event,
    Measured,
    RunFolder,
    SelectionConfirmed,
    SelectionMade,
    StopReason,
    read_trace,
)
from tests.agent.killed import start, wait_for
from tests.agent.scene import HERE, drive, hand_in, new_run, passed, scripted


class Confirmer:
    """Answers each confirmation with the next of `verdicts`: a speedup, a status, or a drift that voids the ratios."""

    def __init__(self, *verdicts: float | VerdictStatus | str) -> None:
        self.asked: list[str] = []
        self._verdicts = iter(verdicts)

    def __call__(self, source: str) -> Verdict:
        self.asked.append(source)
        wanted, sha256 = next(self._verdicts), source_sha256(source)
        if isinstance(wanted, VerdictStatus):
            return Verdict(wanted, sha256, "judged again", HERE)
        if isinstance(wanted, str):
            return void(sha256, float(wanted))
        return replace(passed(sha256, wanted), drift=0.004, baseline_sha256="b" * 64)


def void(sha256: str, drift: float) -> Verdict:
    """A verdict whose ratios are void since the baseline moved by `drift`."""
    whole = passed(sha256, 3.0)
    results = tuple(replace(result, speedup=None) for result in whole.workloads)
    return replace(whole, workloads=results, geomean_speedup=None, drift=drift, baseline_sha256="b" * 64)


def conclusions(run: RunFolder) -> list[SelectionConfirmed]:
    return [event for event in read_trace(run.path).events if isinstance(event, SelectionConfirmed)]


def confirm(path: Path, speeds: Sequence[float], confirmer: Confirmer) -> tuple[RunFolder, SelectionConfirmed]:
    """A run whose submissions have these speedups, driven to its end, and what its last confirmation came to."""
    run = new_run(path)
    drive(run, scripted([hand_in(f"# speedup {speed}\n") for speed in speeds]), confirm=confirmer)
    return run, conclusions(run)[-1]


def test_both_numbers_are_kept(tmp_path: Path) -> None:
    run, concluded = confirm(tmp_path / "r", [2.0, 3.0], again := Confirmer(2.95))

    trace = read_trace(run.path)
    assert again.asked == ["# speedup 3.0\n"]
    assert trace.finished is not None and trace.finished.selection is not None
    assert trace.finished.selection.geomean_speedup == 3.0
    assert (concluded.confirmed, concluded.speedup) == (True, 2.95)
    assert "against" not in concluded.note, "a difference of less than 5 % is nothing to talk about"
    (measured,) = trace.confirmations
    assert (measured.attempt, measured.geomean_speedup) == (1, 2.95)
    assert measured.times is not None and measured.times.drift == 0.004


def test_no_time_stands_in_what_was_found_at_the_confirmation(tmp_path: Path) -> None:
    run, _ = confirm(tmp_path / "r", [3.0], Confirmer(2.875))

    (found,) = [e.model_dump(mode="json") for e in read_trace(run.path).events if isinstance(e, ConfirmationReached)]
    (times,) = [event for event in read_trace(run.path).events if isinstance(event, ConfirmationMeasured)]
    text = json.dumps({name: value for name, value in found.items() if name != "time"})
    assert times.times.geomean_speedup == 2.875
    assert "2.875" not in text and str(2.0 / 2.875) not in text and "0.004" not in text


@pytest.mark.parametrize(("again", "words"), [(2.8, "-6.7 % against the 3"), (3.2, "+6.7 % against the 3")])
def test_a_large_difference_is_said(tmp_path: Path, again: float, words: str) -> None:
    _, concluded = confirm(tmp_path / "r", [3.0], Confirmer(again))

    assert concluded.confirmed is True and words in concluded.note


def test_a_winner_that_fails_gives_way_to_the_next(tmp_path: Path) -> None:
    again = Confirmer(VerdictStatus.INCORRECT, VerdictStatus.TIMED_OUT, 2.0)
    run, concluded = confirm(tmp_path / "r", [2, 9, 7], again)

    trace = read_trace(run.path)
    assert again.asked == ["# speedup 9\n", "# speedup 7\n", "# speedup 2\n"]
    assert trace.finished is not None and trace.finished.selection is not None
    assert trace.finished.selection.geomean_speedup == 2.0
    assert [event.confirmed for event in conclusions(run)] == [False, False, True]
    assert "refused when judged again: incorrect, judged again" in conclusions(run)[0].note
    assert concluded.speedup == 2.0


def test_when_all_fail_nothing_is_selected_and_it_is_said(tmp_path: Path) -> None:
    run, concluded = confirm(tmp_path / "r", [2, 9], Confirmer(VerdictStatus.INCORRECT, VerdictStatus.INCORRECT))

    trace = read_trace(run.path)
    assert trace.finished is not None and trace.finished.selection is None
    made = [event for event in trace.events if isinstance(event, SelectionMade)]
    assert made[-1].why == "of 2 submissions none was accepted (2 refused when judged again)"
    assert concluded.sha256 is None


def test_a_moved_baseline_is_measured_once_more(tmp_path: Path) -> None:
    run, concluded = confirm(tmp_path / "r", [3.0], again := Confirmer("0.031", 2.9))

    assert len(again.asked) == 2
    assert (concluded.confirmed, concluded.speedup) == (True, 2.9)
    assert [item.attempt for item in read_trace(run.path).confirmations] == [1, 2]


def test_a_baseline_that_moves_twice_leaves_the_selection_unconfirmed(tmp_path: Path) -> None:
    run, concluded = confirm(tmp_path / "r", [3.0], again := Confirmer("0.031", "0.027"))

    trace = read_trace(run.path)
    assert len(again.asked) == 2
    assert (concluded.confirmed, concluded.speedup) == (None, None)
    assert "the baseline moved by 2.7 % during the measurement, twice in a row" in concluded.note
    assert trace.finished is not None and trace.finished.selection is not None


@pytest.mark.parametrize("drift", ["0.004", "0.02"])
def test_a_baseline_that_hardly_moved_voids_nothing(tmp_path: Path, drift: str) -> None:
    """Ratios may be unknown for another reason, such as a baseline that failed on one workload."""
    _, concluded = confirm(tmp_path / "r", [3.0], again := Confirmer(drift))

    assert len(again.asked) == 1
    assert (concluded.confirmed, concluded.speedup) == (None, None)
    assert concluded.note == "not confirmed: there is no baseline to compare it with"


@pytest.mark.parametrize("last", [SelectionMade, ConfirmationReached])
@pytest.mark.parametrize("first", ["0.031", VerdictStatus.NOISY, 2.9])
def test_a_requested_stop_waits_for_no_measurement_but_the_one_in_hand(
    tmp_path: Path, last: type[Event], first: float | VerdictStatus | str
) -> None:
    run, again = new_run(tmp_path / "r"), Confirmer(first)

    def watch(event: Event) -> None:
        if isinstance(event, last):
            run.request_stop()

    drive(run, scripted([hand_in("# speedup 3.0\n")]), progress=watch, confirm=again)

    trace = read_trace(run.path)
    (concluded,) = conclusions(run)
    assert len(again.asked) == (last is ConfirmationReached)
    assert trace.finished is not None and trace.finished.selection is not None
    assert trace.finished.stop_reason is StopReason.SCRIPT_ENDED, "what ended the run came before"
    if last is ConfirmationReached and first == 2.9:
        assert (concluded.confirmed, concluded.speedup) == (True, 2.9)
    else:
        assert (concluded.confirmed, concluded.sha256) == (None, trace.finished.selection.sha256)
        assert concluded.note.startswith("not confirmed: the run was asked to stop first; `d2k-agent score` measures")


def test_noise_gets_a_second_attempt_and_no_third(tmp_path: Path) -> None:
    _, concluded = confirm(tmp_path / "one", [3.0], Confirmer(VerdictStatus.NOISY, 3.0))
    assert concluded.confirmed is True

    _, last = confirm(tmp_path / "two", [3.0], again := Confirmer(VerdictStatus.NOISY, VerdictStatus.NOISY))
    assert len(again.asked) == 2 and last.sha256 is None


def test_a_machine_without_a_gpu_refuses_nobody(tmp_path: Path) -> None:
    """A run that began on a GPU and is resumed where there is none."""
    run, concluded = confirm(tmp_path / "r", [3.0], Confirmer(VerdictStatus.UNTIMED))

    trace = read_trace(run.path)
    assert concluded.confirmed is None and "nothing on this machine can measure" in concluded.note
    assert trace.finished is not None and trace.finished.selection is not None


def test_nothing_to_confirm_is_said_and_nobody_is_asked(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r")

    drive(run, scripted([hand_in("# untimed\n")]), confirm=(again := Confirmer()))

    (concluded,) = conclusions(run)
    assert again.asked == []
    assert concluded.confirmed is None and "nothing to confirm" in concluded.note


def test_a_verdict_about_another_candidate_is_a_broken_machine(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r")

    with pytest.raises(MachineError, match="was to be confirmed"):
        drive(run, scripted([hand_in("# speedup 2\n")]), confirm=lambda source: passed("f" * 64, 2.0))


def test_an_evaluator_that_breaks_leaves_the_run_resumable(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r")

    def broken(source: str) -> Verdict:
        raise MachineError("the GPU fell off the bus")

    with pytest.raises(MachineError):
        drive(run, scripted([hand_in("# speedup 2\n")]), confirm=broken)
    drive(run, scripted([]), confirm=Confirmer(2.0))

    assert conclusions(run)[-1].speedup == 2.0


SPEEDS = (2, 9, 7)
AGAIN: tuple[float | VerdictStatus | str, ...] = ("0.05", VerdictStatus.INCORRECT, "0.03", 6.0)


def test_ctrl_c_after_any_event_repeats_no_measurement(tmp_path: Path) -> None:
    whole, _ = confirm(tmp_path / "whole", SPEEDS, Confirmer(*AGAIN))
    expected = read_trace(whole.path)
    first = next(event.seq for event in expected.events if isinstance(event, SelectionMade))

    for number in range(first, len(expected.events)):

        def watch(event: Event, number: int = number) -> None:
            if event.seq == number:
                raise KeyboardInterrupt

        run, again = new_run(tmp_path / str(number)), Confirmer(*AGAIN)
        script = [hand_in(f"# speedup {speed}\n") for speed in SPEEDS]
        with pytest.raises(KeyboardInterrupt):
            drive(run, scripted(script), progress=watch, confirm=again)
        drive(run, scripted(script), confirm=again)

        assert read_trace(run.path).finished is not None
        assert again.asked == ["# speedup 9\n"] * 2 + ["# speedup 7\n"] * 2
        assert [(e.sha256, e.confirmed, e.speedup, e.note) for e in conclusions(run)] == [
            (e.sha256, e.confirmed, e.speedup, e.note) for e in conclusions(whole)
        ]


def drive_into_a_killed_confirmation(path: Path) -> None:
    """The first attempt is void, and the process hangs in the second one."""

    def hanging(source: str) -> Verdict:
        asked = path.parent / "asked"
        with asked.open("a") as file:
            file.write("x")
        if len(asked.read_text()) == 2:
            (path.parent / "hangs").touch()
            time.sleep(600)
        return void(source_sha256(source), 0.05)

    drive(RunFolder(path), scripted([hand_in("# speedup 3\n")]), confirm=hanging)


def test_killed_in_the_second_attempt_only_that_one_is_repeated(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r")
    process = start(run.path, drive_into_a_killed_confirmation)
    wait_for((tmp_path / "hangs").exists)
    process.kill()
    process.join(60)

    drive(run, scripted([]), confirm=(again := Confirmer(2.9)))

    trace = read_trace(run.path)
    assert len(again.asked) == 1 and conclusions(run)[-1].speedup == 2.9
    assert [(item.attempt, item.geomean_speedup) for item in trace.confirmations] == [(1, None), (2, 2.9)]
    assert len([event for event in trace.events if isinstance(event, Measured)]) == 1


def test_a_measurement_without_what_was_found_is_no_attempt(tmp_path: Path) -> None:
    """A power cut may lose the end of an append: the verdict, not the times before it."""
    run, _ = confirm(tmp_path / "r", [3.0], Confirmer(2.5))
    lines = run.events.read_bytes().splitlines(keepends=True)
    cut = next(number for number, line in enumerate(lines) if b'"confirmation_reached"' in line)
    run.events.write_bytes(b"".join(lines[:cut]))

    drive(run, scripted([]), confirm=(again := Confirmer(2.9)))

    assert len(again.asked) == 1
    assert [item.geomean_speedup for item in read_trace(run.path).confirmations] == [2.9]


def test_times_of_an_attempt_that_was_cut_off_do_not_stick_to_the_one_that_is_made_instead(tmp_path: Path) -> None:
    run, _ = confirm(tmp_path / "r", [3.0], Confirmer(2.5))
    lines = run.events.read_bytes().splitlines(keepends=True)
    cut = next(number for number, line in enumerate(lines) if b'"confirmation_reached"' in line)
    run.events.write_bytes(b"".join(lines[:cut]))

    drive(run, scripted([]), confirm=Confirmer(VerdictStatus.INCORRECT))

    (found,) = read_trace(run.path).confirmations
    assert (found.verdict.status, found.times) == (VerdictStatus.INCORRECT, None)
    assert conclusions(run)[0].note == "refused when judged again: incorrect, judged again"


def test_a_submission_whose_times_a_power_cut_took_is_none_until_its_call_is_made_again(tmp_path: Path) -> None:
    run, _ = confirm(tmp_path / "r", [3.0], Confirmer(2.5))
    lines = run.events.read_bytes().splitlines(keepends=True)
    cut = next(number for number, line in enumerate(lines) if b'"measured"' in line)
    run.events.write_bytes(b"".join(lines[:cut]))
    record = run.read_record()
    incumbent = Incumbent(run, record.config, record.workloads)
    assert read_trace(run.path).submissions == () and incumbent.speedup() is None

    drive(run, scripted([]), confirm=Confirmer(2.9))

    assert [item.geomean_speedup for item in read_trace(run.path).submissions] == [3.0]
    assert incumbent.speedup() == 3.0


def test_what_a_submission_recorded_before_it_was_cut_off_counts_for_no_other_text(tmp_path: Path) -> None:
    """The file was changed by hand meanwhile: the one text that has a tool's answer is the one that was handed in."""
    run, _ = confirm(tmp_path / "r", [3.0], Confirmer(2.5))
    lines = run.events.read_bytes().splitlines(keepends=True)
    cut = next(number for number, line in enumerate(lines) if b'"measured"' in line)
    run.events.write_bytes(b"".join(lines[: cut + 1]))
    (run.workspace / "solution.py").write_text("# speedup 2.0\n")

    drive(run, scripted([]), confirm=(again := Confirmer(2.0)))

    assert [item.geomean_speedup for item in read_trace(run.path).submissions] == [2.0]
    assert again.asked == ["# speedup 2.0\n"]
