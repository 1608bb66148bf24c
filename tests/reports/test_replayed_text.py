"""How a replay differs from its recording, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from d2k_agent.contract import Environment
from d2k_agent.models import Divergence
from d2k_agent.records import Replayed
from d2k_agent.reports.replayed_text import replayed_text
from tests.reports.replays import ON_CPU, ON_H200

BASH = Divergence(2, "bash", "old line", "new line")


def answers(*tools: str) -> tuple[Divergence, ...]:
    """A result of each tool that the machines explain."""
    return tuple(Divergence(turn, tool, "recorded", "now") for turn, tool in enumerate(tools, start=1))


def test_divergences_of_a_replay_show_the_first_line_that_differs() -> None:
    differs = Divergence(2, "bash", "same\nold line\n", "same\nnew line\n")
    shorter = Divergence(3, "read", "one\ntwo", "one")
    numbers = Divergence(3, "submit", "0.1", "0.2", numbers_only=True)
    text = replayed_text(Replayed((differs, shorter, numbers), 3, 3))
    assert "2 results differ from the recorded ones, 1 more in nothing but numbers" in text
    assert "recorded: old line" in text and "now:      new line" in text
    assert "recorded: two" in text and "now:      (end)" in text
    assert replayed_text(Replayed((), 2, 2)) == "Replay: every tool answered as recorded."


def test_a_replay_of_a_part_says_so() -> None:
    assert "2 of 10 recorded turns replayed" in replayed_text(Replayed((), 10, 2))
    assert "recorded turns replayed" not in replayed_text(Replayed((), 2, 2))


def test_a_recording_of_a_gpu_differs_on_a_cpu_in_times_compile_reports_and_profiles_each_counted_as_that() -> None:
    of_machine = answers("compile", "submit", "profile", "compile", "submit", "submit")
    text = replayed_text(Replayed((), 6, 6, of_machine, ON_H200, ON_CPU))
    where, what, rest = text.splitlines()
    assert where == (
        "Replay: recorded on NVIDIA H200 for target h200 (torch 2.11, triton 3.6.0); "
        "here candidates ran on the CPU for target b200 (torch 2.13, triton 3.7.1)."
    )
    assert what == (
        "Replay: so 2 compile reports, 3 verdicts (times and compile report) and 1 profile differ, "
        "and what was found is the same."
    )
    assert rest == "Replay: every other tool answered as recorded."


@pytest.mark.parametrize(
    ("before", "now", "where", "what"),
    [
        (ON_CPU, ON_H200, "recorded on the CPU for target b200", "1 verdict (times and compile report) differs"),
        (
            ON_H200,
            replace(ON_H200, device_name="NVIDIA H100", target="h100"),
            "on NVIDIA H200 for target h200; here candidates ran on NVIDIA H100 for target h100.",
            "1 verdict (times and compile report) differs",
        ),
        (
            ON_H200,
            replace(ON_H200, triton="3.7.1"),
            "on NVIDIA H200 (triton 3.6.0); here candidates ran on NVIDIA H200 (triton 3.7.1).",
            "1 verdict (compile report) differs",
        ),
        (
            replace(ON_CPU, device_name="aarch64 CPU"),
            ON_CPU,
            "recorded on aarch64 CPU; here candidates ran on x86_64 CPU (Triton interpreter).",
            "1 verdict differs",
        ),
        (ON_H200, replace(ON_H200, torch="2.12"), "ran on NVIDIA H200 (torch 2.12).", "1 verdict differs"),
    ],
)
def test_only_what_differs_between_the_machines_is_told_and_only_what_follows_from_it(
    before: Environment, now: Environment, where: str, what: str
) -> None:
    text = replayed_text(Replayed((BASH,), 2, 2, answers("submit"), before, now))
    assert where in text and f"so {what}, and what was found is the same." in text
    assert "Replay: 1 result differs from the recorded ones" in text and "now:      new line" in text


def test_two_machines_that_explain_nothing_are_not_mentioned() -> None:
    assert replayed_text(Replayed((), 2, 2, (), ON_H200, ON_CPU)) == "Replay: every tool answered as recorded."
