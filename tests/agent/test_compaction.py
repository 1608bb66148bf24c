"""When shortening old results pays, what is left of them, and a conversation that does not fit any more."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from d2k_agent.agent import StopReason
from d2k_agent.agent.compaction import KEPT_TURNS, MARK, Answered, Compactor, shortened
from d2k_agent.errors import ContextOverflow
from d2k_agent.models import CachePlan, Message, ModelReply, PriceRow, Rates, Tier, Usage
from d2k_agent.models.tokens import count_message
from d2k_agent.records import (
    Compacted,
    Event,
    ModelCallFailed,
    ModelCallStarted,
    ModelReplied,
    ToolFinished,
    Trace,
    read_trace,
)
from d2k_agent.toolbox import HostAnswer
from tests.agent.scene import call, drive, new_run, reply, scripted, toolbox

PRICE = PriceRow(
    "anthropic/x",
    "page",
    None,
    Rates(Decimal(5), Decimal(25), Decimal("6.25"), cache_write_1h=Decimal(10), cache_read=Decimal("0.5")),
)


def conversation(turns: int, words: int = 900) -> tuple[list[Message], list[Answered]]:
    """One call a turn; its answer is a line and `words` numbers."""
    messages: list[Message] = [{"role": "system", "content": "s"}, {"role": "user", "content": "go"}]
    answers = []
    for turn in range(1, turns + 1):
        text = f"answer {turn}\n" + " ".join(str(turn * 1000 + word) for word in range(words))
        messages.append({"role": "assistant", "content": "", "tool_calls": []})
        answers.append(Answered(len(messages), turn, f"c{turn}", "bash", text))
        messages.append({"role": "tool", "tool_call_id": f"c{turn}", "content": text})
    return messages, answers


def planned(
    turns: int,
    limit: int = 350,
    price: PriceRow | None = PRICE,
    words: int = 900,
    last: ModelReplied | None = None,
) -> Compacted | None:
    messages, answers = conversation(turns, words)
    return Compactor(price, limit).planned(messages, answers, call=turns + 1, turn=turns + 1, last=last)


def replied(ttl_s: int, tokens: int = 50_000, marks: bool = True) -> ModelReplied:
    """A reply to a request of so many tokens, whose entries were to live `ttl_s`."""
    plan = CachePlan(marks, (), ttl_s)
    usage = Usage(0, 0, tokens, 5)
    return ModelReplied(
        call=1, turn=1, message={}, finish_reason=None, usage=usage, cost_usd=None, seconds=1.0, cache=plan
    )


def test_nothing_is_shortened_before_carrying_it_has_cost_what_writing_anew_will() -> None:
    steps = [planned(turns) for turns in range(1, 60)]
    first = next(index for index, step in enumerate(steps) if step is not None)
    step = steps[first]
    assert first > KEPT_TURNS and step is not None
    assert set(step.results) == {f"c{turn}" for turn in range(1, first + 2 - KEPT_TURNS)}
    assert all(steps[first:]), "what pays after fewer turns pays after more"


def test_the_arithmetic_is_that_of_the_prices() -> None:
    step = planned(40)
    assert step is not None
    carried = sum(step.saved_tokens / len(step.results) * (41 - KEPT_TURNS - turn) for turn in range(1, 33))
    ahead, cost = step.saved_tokens * 0.5 * 40 / 1e6, step.rewritten_tokens * (6.25 - 0.5) / 1e6
    assert min(0.5 * carried / 1e6, ahead) >= cost
    assert f"x 0.5 x 40 = about {ahead:.4f}" in step.why
    assert f"{step.rewritten_tokens:,} x (6.25 - 0.5) = about {cost:.4f}" in step.why


@pytest.mark.parametrize(
    ("last", "rates"),
    [
        (replied(300), "(6.25 - 0.5)"),
        (replied(3600), "(10 - 0.5)"),
        (replied(3600, tokens=200_001), "(20 - 1)"),
        (replied(300, tokens=200_001), "(12.5 - 1)"),
        (replied(3600, marks=False), "(6.25 - 0.5)"),
    ],
    ids=["5 min", "1 h", "1 h, long", "5 min, long", "no marks"],
)
def test_the_rates_are_those_of_the_lifetime_and_the_length_of_the_request_before(
    last: ModelReplied, rates: str
) -> None:
    dear = Rates(Decimal(10), Decimal(50), Decimal("12.5"), Decimal(20), Decimal(1))
    step = planned(55, price=replace(PRICE, tiers=(Tier(200_000, dear),)), last=last)
    assert step is not None and f"x {rates} = about" in step.why


def test_writing_for_an_hour_pays_later() -> None:
    first = [
        next(turns for turns in range(1, 60) if planned(turns, last=replied(ttl_s)) is not None)
        for ttl_s in (300, 3600)
    ]
    assert first[0] < first[1]


def test_near_its_last_turn_a_run_is_left_alone() -> None:
    assert planned(40, limit=350) is not None
    assert planned(40, limit=42) is None


def test_short_results_are_left_alone_however_old() -> None:
    assert planned(200, words=0) is None
    assert planned(KEPT_TURNS) is None, "nothing is old"


def test_without_prices_the_usual_ratios_decide() -> None:
    step = planned(40, price=None)
    assert step is not None and "x (1.25 - 0.1)" in step.why and "uncached tokens' worth" in step.why


def test_counts_are_those_of_the_messages() -> None:
    messages, answers = conversation(40)
    step = Compactor(None, 350).planned(messages, answers, 41, 41, None)
    assert step is not None
    after = [{**m, "content": step.results.get(str(m.get("tool_call_id")), m["content"])} for m in messages]
    assert sum(map(count_message, messages)) - sum(map(count_message, after)) == pytest.approx(
        step.saved_tokens, abs=80
    )
    assert sum(map(count_message, after[3:])) == pytest.approx(step.rewritten_tokens, abs=80)


def test_a_first_line_is_left_and_marked_and_what_is_short_stays() -> None:
    assert shortened("passed 3x\nworkload ...\n1 2 3") == "passed 3x" + MARK
    assert shortened("x" * 500) == "x" * 160 + MARK
    assert shortened("[no output]") == "[no output]"
    assert shortened("ab\ncd") == "ab\ncd", "it would not become shorter"
    pointing = "[as in the answer to compile, turn 1]"
    assert (shortened(pointing), shortened(f"ran {pointing}\nmore")) == ("[shortened]", f"ran {MARK}")


class Narrow:
    """A model whose context holds `most_tokens`."""

    name = "scripted/test"

    def __init__(self, replies: Sequence[Any], most_tokens: int) -> None:
        self._model = scripted(replies)
        self._most_tokens = most_tokens

    def complete(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> ModelReply:
        if sum(map(count_message, messages)) > self._most_tokens:
            raise ContextOverflow(f"more than {self._most_tokens} tokens")
        return self._model.complete(messages, tools)


REPORT = "kernel f regs=40 shared=1024 " * 30
POINTER = re.compile(r"\[as in the answer to compile, turn (\d+)\]")


def compiled(tmp_path: Path, at: Sequence[type] = ()) -> tuple[Trace, list[list[Message]]]:
    """A run that compiles each turn, with the same report and much that is new; Ctrl-C behind the first of each `at`.

    A new report stands from turn 20 on.
    """
    run = new_run(tmp_path, turns=100, protocol="efficient", wording="brief")
    requests: list[list[Message]] = []

    def compiling(arguments: Mapping[str, Any]) -> HostAnswer:
        turn = sum(isinstance(event, ToolFinished) for event in read_trace(run.path).events) + 1
        report = REPORT if turn < 20 else f"kernel g {REPORT}"
        return HostAnswer("ok", f"compiled, try {turn}\n\n{report}\n\ntail {turn} " + "abc " * 300)

    class Noted(Narrow):
        def complete(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> ModelReply:
            answer = super().complete(messages, tools)
            requests.append(list(messages))
            return answer

    def press(event: Event) -> None:
        if type(event) in left:
            left.remove(type(event))
            raise KeyboardInterrupt

    left = list(at)
    for _ in range(len(at) + 1):
        with suppress(KeyboardInterrupt):
            drive(run, Noted([reply(call("compile"))] * 40, 6_000), toolbox(run, compile=compiling), press)
    assert not left, "each interruption took place"
    return read_trace(run.path), requests


def test_what_an_answer_points_at_stands_whole_in_every_request(tmp_path: Path) -> None:
    trace, requests = compiled(tmp_path / "r")
    assert sum(isinstance(event, Compacted) for event in trace.events) > 2 and len(requests) == 40
    pointers = 0
    for messages in requests:
        answers = [str(message["content"]) for message in messages if message.get("role") == "tool"]
        for answer in answers:
            for turn in map(int, POINTER.findall(answer)):
                pointers += 1
                assert REPORT in answers[turn - 1], "one call a turn"
    last = [str(message["content"]) for message in requests[-1] if message.get("role") == "tool"]
    assert pointers > 40 and sum(REPORT in answer for answer in last) == 1, "the first report became old"


def test_a_run_that_is_resumed_beside_a_digest_sends_the_same_bytes(tmp_path: Path) -> None:
    _, whole = compiled(tmp_path / "whole")
    _, parts = compiled(tmp_path / "parts", at=[Compacted, ModelCallStarted, ToolFinished, ModelCallFailed])
    assert [json.dumps(messages) for messages in parts] == [json.dumps(messages) for messages in whole]


def test_an_answer_that_is_kept_for_anothers_sake_keeps_what_it_points_at_itself() -> None:
    messages, answers = conversation(4)
    texts = [
        "one " * 300,
        "two\n\n[as in the answer to bash, turn 1] " + "x " * 300,
        "three\n" + "y " * 300,
        "[as in the answer to bash, turn 2]",
    ]
    answers = [replace(item, text=text) for item, text in zip(answers, texts, strict=True)]
    step = Compactor(None, 350).forced(messages, answers, 5, 5)
    assert step is not None and set(step.results) == {"c3"}
    rest = [item for item in answers if item.call_id != "c3"]
    step = Compactor(None, 350).forced(messages, rest, 5, 5)
    assert step is not None and set(step.results) == {"c1", "c2", "c4"}, "where nothing else is left, none is kept"
    assert "did not fit into your context; ask for a smaller part" in step.results["c1"]


def overflowing(tmp_path: Path, protocol: str, words: int = 300) -> Any:
    run = new_run(tmp_path / protocol, turns=100, protocol=protocol, wording="brief")

    def bash(arguments: Mapping[str, Any]) -> HostAnswer:
        return HostAnswer("ok", f"ran {arguments['command']}\n" + "a b " * words + arguments["command"])

    replies = [reply(call("bash", command=str(number))) for number in range(45)]
    drive(run, Narrow(replies, 6_000), toolbox(run, bash=bash))
    return read_trace(run.path)


def test_thirty_turns_and_more_beyond_a_context_overflow(tmp_path: Path) -> None:
    trace = overflowing(tmp_path, "efficient")
    overflows = [event for event in trace.events if isinstance(event, ModelCallFailed)]
    first = next(event.turn for event in trace.events if isinstance(event, Compacted))
    assert trace.finished is not None and trace.finished.stop_reason is StopReason.SCRIPT_ENDED
    assert trace.turns == 45 and 0 < first < 15
    # The last failure is the end of the script.
    assert len(overflows) - 1 == sum(isinstance(event, Compacted) for event in trace.events)
    calls = [event.call for event in trace.events if isinstance(event, ModelReplied)]
    assert calls == list(range(1, 46)), "one turn stays one turn"


def test_the_other_protocols_end_there(tmp_path: Path) -> None:
    for protocol in ("default", "paper"):
        trace = overflowing(tmp_path, protocol)
        assert trace.finished is not None and trace.finished.stop_reason is StopReason.CONTEXT_OVERFLOW
        assert not any(isinstance(event, Compacted) for event in trace.events)


def test_one_result_that_is_too_long_by_itself_is_shortened_too_and_then_the_run_ends(tmp_path: Path) -> None:
    trace = overflowing(tmp_path, "efficient", words=4_000)
    assert trace.finished is not None and trace.finished.stop_reason is StopReason.SCRIPT_ENDED
    assert sum(isinstance(event, ToolFinished) for event in trace.events) == 45
