"""A replay on another machine: what the machines explain is told apart from what is really different."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from d2k_agent.config import RunConfig
from d2k_agent.contract import Environment, VerdictStatus, Violation
from d2k_agent.models import Usage
from d2k_agent.records import (
    Event,
    ModelReplied,
    Replayed,
    RunRecord,
    ToolFinished,
    Trace,
    VerdictReached,
    VerdictRecord,
    WorkloadVerdict,
    recorded_turns,
    replayed,
)

SHA = "a" * 64
CPU = Environment("m", "cpu", "x86_64 CPU", "b200", "landlock", "3.11", "2.13", "3.7.1", "e", "t")
GPU = replace(CPU, machine="n", device="cuda", device_name="NVIDIA H200", target="h200", torch="2.11", triton="3.6.0")
RECORD = RunRecord(
    run_id="r", config=RunConfig(task="muon", model="scripted/x"), task_slug="muon", task_digest="t", workloads=("w",)
)

Answer = tuple[str, str, Any, tuple[str, ...]]
"""Tool, text, outcome (a stranger's record may have any), and the checks that failed or rules that were broken."""
ACCEPTED: Answer = ("submit", "Status: passed\n1.5x", "passed", ())


def trace(environment: Environment, *answers: Answer) -> Trace:
    """A run with a turn for each answer."""
    events: list[Event] = []
    for turn, (tool, text, outcome, failed) in enumerate(answers, start=1):
        key = {"turn": turn, "call_id": f"c{turn}"}
        call = {"id": f"c{turn}", "type": "function", "function": {"name": tool, "arguments": "{}"}}
        said = {"role": "assistant", "content": "", "tool_calls": [call]}
        events.append(
            ModelReplied(
                call=turn,
                turn=turn,
                message=said,
                finish_reason="tool_calls",
                usage=Usage.unknown(),
                cost_usd=None,
                seconds=0,
            )
        )
        if tool == "submit" and outcome is not None:
            events.append(
                VerdictReached(**key, sha256=SHA, verdict=verdict(environment, VerdictStatus(outcome), failed))
            )
        data = {} if outcome is None else {"outcome": outcome}
        events.append(ToolFinished(**key, index=0, name=tool, status="ok", text=text, data=data))
    return Trace(RECORD, tuple(events))


def verdict(environment: Environment, status: VerdictStatus, failed: tuple[str, ...]) -> VerdictRecord:
    broken = status is VerdictStatus.RULE_VIOLATION
    labels = ("registered",) if status is VerdictStatus.PASSED else failed
    return VerdictRecord(
        status=status,
        candidate_sha256=SHA,
        message="",
        environment=environment,
        violations=tuple(Violation(check, "", 3) for check in failed) if broken else (),
        workloads=() if broken else tuple(WorkloadVerdict(label=label, status=status) for label in labels),
    )


def compared(before: Answer, now: Answer, here: Environment = CPU) -> Replayed:
    """A pair of answers behind a submission that both machines accept."""
    return replayed(trace(GPU, ACCEPTED, before), trace(here, ("submit", "Status: untimed", "untimed", ()), now))


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (("submit", "9.8 ms, passed", "passed", ()), ("submit", "no latency", "untimed", ())),
        (("submit", "not settled", "noisy", ()), ("submit", "no latency", "untimed", ())),
        (("profile", "product 98 %", "profiled", ()), ("profile", "no profile", "untimed", ())),
        (("compile", "wgmma", "untimed", ()), ("compile", "tcgen05", "untimed", ())),
        (("compile", "for h200", "compile_error", ()), ("compile", "for b200", "compile_error", ())),
        (("compile", "one", ["no", "word"], ()), ("compile", "another", ["no", "word"], ())),
        (("submit", "0.03 at 2048", "incorrect", ("a",)), ("submit", "too large at 512", "incorrect", ("a",))),
        (("submit", "glue", "rule_violation", ("glue",)), ("submit", "other glue", "rule_violation", ("glue",))),
    ],
)
def test_the_same_finding_on_two_machines_is_no_divergence(before: Answer, now: Answer) -> None:
    found = compared(before, now)
    assert found.divergences == ()
    assert [(item.turn, item.tool) for item in found.of_machine] == [(1, "submit"), (2, before[0])]
    assert (found.before, found.now) == (GPU, CPU)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (("submit", "9.8 ms, passed", "passed", ()), ("submit", "wrong", "incorrect", ("a",))),
        (("submit", "wrong", "incorrect", ("w",)), ("submit", "no latency", "untimed", ())),
        (("submit", "wrong in a", "incorrect", ("a",)), ("submit", "wrong in b", "incorrect", ("b",))),
        (("submit", "glue", "rule_violation", ("glue",)), ("submit", "files", "rule_violation", ("files",))),
        (("compile", "wgmma", "untimed", ()), ("compile", "too large", "compile_error", ())),
        (("bash", "old", None, ()), ("bash", "new", None, ())),
        (("profile", "product 98 %", "profiled", ()), ("profile", "there is no such file", None, ())),
    ],
)
def test_another_finding_is_one_whatever_the_machines(before: Answer, now: Answer) -> None:
    found = compared(before, now)
    (divergence,) = found.divergences
    assert (divergence.turn, divergence.tool, divergence.recorded, divergence.now) == (2, before[0], before[1], now[1])
    assert [item.turn for item in found.of_machine] == [1]


def test_on_the_machine_of_the_recording_nothing_is_explained_away() -> None:
    before = trace(GPU, ACCEPTED, ("compile", "wgmma", "untimed", ()))
    now = trace(replace(GPU, machine="another host"), ACCEPTED, ("compile", "none", "untimed", ()))
    assert [item.turn for item in replayed(before, now).divergences] == [2]


def test_without_a_verdict_the_machines_are_unknown_and_explain_nothing() -> None:
    found = replayed(trace(GPU, ("compile", "a", "untimed", ())), trace(CPU, ("compile", "b", "untimed", ())))
    assert len(found.divergences) == 1 and found.of_machine == () and found.before is None


def test_replies_of_both_are_counted_and_a_part_is_compared_as_far_as_it_goes() -> None:
    found = replayed(trace(CPU, ACCEPTED, ("bash", "a", None, ())), trace(CPU, ACCEPTED))
    assert (found.recorded, found.replies, found.divergences) == (2, 1, ())


def test_recorded_turns_hold_each_reply_and_its_results() -> None:
    (first, second) = recorded_turns(trace(CPU, ACCEPTED, ("bash", "a", None, ())))
    assert first.results == ("Status: passed\n1.5x",) and second.results == ("a",)
    assert second.message["tool_calls"][0]["function"]["name"] == "bash" and second.finish_reason == "tool_calls"
