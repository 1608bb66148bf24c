"""Recorded replies drive a new run; what its tools answer differently is reported, times aside."""

from __future__ import annotations

from typing import Any

import pytest

from d2k_agent.errors import ScriptEnded
from d2k_agent.models import Divergence, RecordedTurn, ReplayModel, Usage, compare

USER = {"role": "user", "content": "go"}


def turn(*results: str, tool: str = "compile") -> RecordedTurn:
    calls = [
        {"id": f"c{n}", "type": "function", "function": {"name": tool, "arguments": "{}"}} for n in range(len(results))
    ]
    return RecordedTurn({"role": "assistant", "content": "x", "tool_calls": calls}, results, "tool_calls")


def replayed(recorded: list[RecordedTurn], now: list[list[str]]) -> tuple[ReplayModel, list[dict[str, Any]]]:
    """Drive a replay whose tools answer `now`, to its end."""
    model, messages = ReplayModel(recorded, "replay/test"), [dict(USER)]
    for results in now:
        reply = model.complete(messages, [])
        messages.append(reply.message)
        messages += [{"role": "tool", "tool_call_id": f"c{n}", "content": text} for n, text in enumerate(results)]
    with pytest.raises(ScriptEnded, match=rf"replay/test holds {len(recorded)} repl(y|ies) and all were given"):
        model.complete(messages, [])
    return model, messages


def test_the_recorded_messages_come_back_whole_and_cost_nothing_known() -> None:
    signed = {"role": "assistant", "content": "x", "thinking_blocks": [{"thinking": "a", "signature": "S"}]}
    reply = ReplayModel([RecordedTurn(signed, finish_reason="stop")]).complete([USER], [])
    assert reply.message == signed
    assert (reply.finish_reason, reply.usage, reply.cost_usd) == ("stop", Usage.unknown(), None)


def test_a_faithful_replay_has_no_divergence() -> None:
    model, messages = replayed([turn("a", "b"), turn("c")], [["a", "b"], ["c"]])
    assert model.divergences == ()
    assert compare([turn("a", "b"), turn("c")], messages) == ()


def test_a_different_result_names_turn_tool_and_both_texts() -> None:
    model, messages = replayed([turn("a"), turn("fine", tool="submit")], [["a"], ["wrong"]])
    expected = (Divergence(2, "submit", "fine", "wrong"),)
    assert model.divergences == expected
    assert compare([turn("a"), turn("fine", tool="submit")], messages) == expected


@pytest.mark.parametrize(
    ("recorded", "now"),
    [
        ("compiled in 1.5 s", "compiled in 12.25 s"),
        ("took 900 us", "took 1.1 ms"),
        ('{"mean_ms": 3.5, "status": "passed"}', '{"mean_ms": 3.75, "status": "passed"}'),
        ("seconds: 3", "seconds: 4.5"),
        ("speedup 1.53 over the baseline", "speedup 1.49 over the baseline"),
        ("small   9.8 ms   1.5x", "small  101.2 ms  12.5x"),
        ("SM clock 1755 MHz to 1980 MHz; power 90.5 W", "SM clock 1980 MHz to 1980 MHz; power 688 W"),
        ("at 12:03:04", "at 09:59:00"),
        ("2026-11-29T12:00:00Z", "2027-01-01T00:00:01Z"),
    ],
)
def test_times_make_no_divergence(recorded: str, now: str) -> None:
    assert replayed([turn(recorded)], [[now]])[0].divergences == ()


@pytest.mark.parametrize(
    ("recorded", "now", "numbers_only"),
    [
        ("rel_norm 0.0031, 3 checks", "rel_norm 0.0052, 3 checks", True),
        ("tile 128x64", "tile 64x64", True),
        ("    return x", "  return x", False),
        ("gram   98.5  1,234.5", "gram  101.5    987.5", True),
        ("passed in 1.5 s", "incorrect in 1.5 s", False),
        ("mean_ms 1.5, error 0.1", "mean_ms 2.5, error 0.2", True),
    ],
)
def test_everything_else_does(recorded: str, now: str, numbers_only: bool) -> None:
    (found,) = replayed([turn(recorded)], [[now]])[0].divergences
    assert (found.recorded, found.now, found.numbers_only) == (recorded, now, numbers_only)


def test_missing_and_extra_results_are_divergences() -> None:
    model, _ = replayed([turn("a", "b"), turn("c")], [["a"], ["c", "d"]])
    assert model.divergences == (
        Divergence(1, "compile", "b", None, index=1),
        Divergence(2, "?", None, "d", index=1),
    )


def test_results_of_a_last_turn_that_nothing_followed_are_compared_afterwards() -> None:
    recorded = [turn("a"), turn("b"), turn("never reached")]
    model, messages = ReplayModel(recorded), [dict(USER)]
    messages += [model.complete(messages, []).message, {"role": "tool", "content": "a"}]
    messages += [model.complete(messages, []).message, {"role": "tool", "content": "B"}]
    assert model.divergences == ()
    assert compare(recorded, messages) == (Divergence(2, "compile", "b", "B"),)


def test_a_resumed_replay_goes_on_and_reports_what_came_before() -> None:
    recorded = [turn("a"), turn("b")]
    first = ReplayModel(recorded).complete([USER], []).message
    messages = [USER, first, {"role": "tool", "content": "other"}, {"role": "user", "content": "resumed"}]
    fresh = ReplayModel(recorded)
    assert fresh.complete(messages, []).message == recorded[1].message
    assert fresh.divergences == (Divergence(1, "compile", "a", "other"),)
