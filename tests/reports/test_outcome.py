"""How a finished run is told: on a screen and to a script."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from d2k_agent.config import RunConfig
from d2k_agent.contract import Verdict
from d2k_agent.models import Divergence, Usage
from d2k_agent.records import (
    Choice,
    ConfirmationMeasured,
    ConfirmationReached,
    Event,
    Measured,
    ModelCallInterrupted,
    Replayed,
    RunFinished,
    RunRecord,
    SelectionConfirmed,
    SelectionMade,
    StopReason,
    Submitted,
    Trace,
    VerdictReached,
    cut,
)
from d2k_agent.reports.outcome import outcome_data, outcome_text
from d2k_agent.reports.paths import nearby
from d2k_agent.reports.replayed_text import replayed_text
from tests.reports.events import KNOWN, SHA, a_run, stamped
from tests.reports.measured import timed, void
from tests.reports.replays import ON_CPU, ON_H200

RECORD = RunRecord(
    run_id="r",
    config=RunConfig(task="muon", model="scripted/x"),
    task_slug="muon",
    task_digest="t",
    workloads=("small",),
)
FOLDER = Path("runs/r")


def trace(events: list) -> Trace:
    return Trace(RECORD, tuple(events))


def test_without_a_gpu_the_provisional_candidate_is_named_and_the_reason_said() -> None:
    text = outcome_text(FOLDER, trace(a_run()))
    assert "The run ended: turn_limit, after 2 turns and 2 submissions." in text
    assert "Selection: none (nothing was measured on this machine)" in text
    assert f"Provisional, unranked: turn 2, runs/r/candidates/{SHA}.py" in text
    assert "Run folder: runs/r" in text and "d2k-agent trace show runs/r" in text


def test_unknown_tokens_and_cost_print_as_unknown() -> None:
    text = outcome_text(FOLDER, trace(a_run()))
    rows = [line.split("  ")[0] for line in text.splitlines() if line.endswith("unknown")]
    assert rows == ["uncached input", "cache write", "cache read", "output", "cost in US$"]
    assert "2 of 2 replies came without a complete count of tokens." in text
    assert "may have been billed" not in text


def test_known_tokens_are_added_up_by_bucket() -> None:
    text = outcome_text(FOLDER, trace(a_run(KNOWN, 0.25)))
    cells = {line.split("  ")[0]: line.split()[-1] for line in text.splitlines() if "  " in line}
    assert cells["cache read"] == "6,000" and cells["output"] == "80" and cells["cost in US$"] == "0.5000"
    assert "at least" not in text


def test_a_sum_with_a_gap_is_marked_as_a_lower_bound() -> None:
    run = a_run(KNOWN, 0.25)
    events = stamped(*run[:-1], ModelCallInterrupted(call=2), run[-1])
    text = outcome_text(FOLDER, trace(events))
    assert "at least 6,000" in text and "at least 0.5000" in text
    assert "1 request may have been billed although no answer came." in text
    assert "replies came without" not in text
    assert outcome_data(FOLDER, trace(events))["usage_lower_bound"] is True


def test_input_that_nobody_split_is_told_beside_the_table() -> None:
    text = outcome_text(FOLDER, trace(a_run(Usage(None, None, None, 40, unsplit_input=1_500), 0.25)))
    told = "3,000 input tokens are in no row: it was not reported what was cached"
    assert "at least 80" in text and f"{told}; the cost counts such input as uncached." in text
    assert f"{told}." in outcome_text(FOLDER, trace(a_run(Usage(None, None, None, 40, unsplit_input=1_500))))
    assert next(line for line in text.splitlines() if line.startswith("cost")).endswith(" 0.5000")


def test_a_selection_is_named_with_its_speedup() -> None:
    run = a_run()
    chosen = Choice(sha256=SHA, turn=1, call_id="c11", geomean_speedup=3.25)
    made = run[-2].model_copy(update={"selection": chosen, "provisional": None, "why": "the fastest"})
    ended = RunFinished(stop_reason=StopReason.TURN_LIMIT, turns=2, selection=chosen, provisional=None)
    text = outcome_text(FOLDER, trace(stamped(*run[:-2], made, ended)))
    assert f"Selection: turn 1, runs/r/candidates/{SHA}.py, speedup 3.25 (the fastest)" in text
    assert "Provisional" not in text


def a_confirmed_run(*ending: Event) -> list[Event]:
    """One submission that is twice as fast as the baseline, selected; then `ending`."""
    key = {"turn": 1, "call_id": "c11", "sha256": SHA}
    parts = cut(timed())
    assert parts.times is not None
    chosen = Choice(sha256=SHA, turn=1, call_id="c11", geomean_speedup=2.0)
    return stamped(
        Submitted(**key),
        VerdictReached(**key, verdict=parts.verdict),
        Measured(**key, times=parts.times),
        SelectionMade(selection=chosen, provisional=None, why="the fastest"),
        *ending,
        RunFinished(stop_reason=StopReason.TURN_LIMIT, turns=1, selection=chosen, provisional=None),
    )


def confirmation(verdict: Verdict) -> list[Event]:
    parts = cut(verdict)
    assert parts.times is not None
    return [
        ConfirmationMeasured(sha256=SHA, attempt=1, times=parts.times),
        ConfirmationReached(sha256=SHA, attempt=1, verdict=parts.verdict),
    ]


def test_both_numbers_of_a_confirmed_selection_are_told_with_the_table_of_the_second() -> None:
    again = replace(timed(), geomean_speedup=1.8, drift=0.012)
    said = SelectionConfirmed(sha256=SHA, confirmed=True, speedup=1.8, note="confirmed at 1.8 times the baseline")
    events = a_confirmed_run(*confirmation(again), said)

    text = outcome_text(FOLDER, trace(events))
    assert "speedup 2 (the fastest)" in text and "Confirmation: confirmed at 1.8 times the baseline" in text
    assert "Geometric mean speedup over the baseline: 1.8x" in text and "moved by 1.2 %" in text
    selection = outcome_data(FOLDER, trace(events))["selection"]
    assert (selection["geomean_speedup"], selection["confirmed_speedup"]) == (2.0, 1.8)


def test_a_selection_that_could_not_be_confirmed_keeps_the_table_of_its_submission() -> None:
    said = SelectionConfirmed(sha256=SHA, confirmed=None, note="not confirmed: the baseline moved by 3.1 %")
    events = a_confirmed_run(*confirmation(void()), said)

    text = outcome_text(FOLDER, trace(events))
    assert "Confirmation: not confirmed: the baseline moved by 3.1 %" in text
    assert "Geometric mean speedup over the baseline: 2x" in text and "12.35 ms" in text
    assert outcome_data(FOLDER, trace(events))["selection"]["confirmed_speedup"] is None


def test_scripts_find_the_promised_keys() -> None:
    data = outcome_data(FOLDER, trace(a_run()))
    assert data["run_dir"] == "runs/r" and data["stop_reason"] == "turn_limit" and data["selection"] is None
    assert data["provisional"] == {
        "sha256": SHA,
        "turn": 2,
        "call_id": "c21",
        "geomean_speedup": None,
        "modelled_ms": None,
    }
    assert data["usage"] == {"uncached_input": None, "cache_write": None, "cache_read": None, "output": None}
    assert data["cost_usd"] is None and data["divergences"] is None


def test_a_replay_is_told_and_counted_for_scripts_as_on_the_screen() -> None:
    differs = Divergence(2, "bash", "old line", "new line")
    numbers = Divergence(2, "submit", "rel norm 0.0051", "rel norm 0.0052", numbers_only=True)
    of_machine = (Divergence(1, "compile", "for h200", "for b200"),)
    found = Replayed((differs, numbers), 2, 2, of_machine, ON_H200, ON_CPU)
    data = outcome_data(FOLDER, trace(a_run()), found)
    assert (data["divergences"], data["numbers_only"], data["of_machine"]) == (1, 1, 1)
    assert f"\n\n{replayed_text(found)}\n\n" in outcome_text(FOLDER, trace(a_run()), found)


def test_a_command_can_be_pasted_and_a_path_is_short() -> None:
    assert "trace show 'my runs/r'" in outcome_text(Path("my runs/r"), trace(a_run()))
    assert nearby(Path("/a/b/c"), Path("/a")) == Path("b/c")
    assert nearby(Path("/a"), Path("/a")) == Path("/a") and nearby(Path("/x/y"), Path("/a")) == Path("/x/y")
