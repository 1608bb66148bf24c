"""A context window that the table of models names: no request is longer, also where a server would cut it silently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from d2k_agent.agent import StopReason
from d2k_agent.agent.window import Window
from d2k_agent.config import RunConfig
from d2k_agent.errors import ContextOverflow
from d2k_agent.models import Message, ModelReply, Quirks, Usage
from d2k_agent.models.tokens import count_content, count_message, count_tokens
from d2k_agent.records import Compacted, ModelCallFailed, ModelReplied, RunFolder, RunRecord, Trace, read_trace
from d2k_agent.toolbox import HostAnswer
from tests.agent.scene import call, drive, reply, scripted, toolbox

WINDOW = 6_000
TURNS = 30


class Silent:
    """A model behind a server that says how long a request is, and never that it is too long."""

    name = "scripted/test"

    def __init__(self, *, counts: bool = True) -> None:
        self.longest = 0
        self._counts = counts
        self._model = scripted([reply(call("bash", command=str(number))) for number in range(TURNS)])

    def complete(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> ModelReply:
        tokens = sum(map(count_content, messages)) + sum(map(count_message, tools))
        self.longest = max(self.longest, tokens)
        usage = Usage(tokens, 0, 0, 20) if self._counts else Usage.unknown()
        return replace(self._model.complete(messages, tools), usage=usage)


def played(folder: Path, protocol: str, model: Silent, *, words: int = 300) -> tuple[Silent, Trace]:
    config = RunConfig(task="muon", model="scripted/test", turns=TURNS, protocol=protocol, wording="brief")
    quirks = Quirks(context_tokens=WINDOW)
    record = RunRecord(run_id="r", config=config, task_slug="m", task_digest="d", workloads=("w",), quirks=quirks)
    run = RunFolder.create(folder / "run", record)

    def bash(arguments: Mapping[str, Any]) -> HostAnswer:
        return HostAnswer("ok", f"ran {arguments['command']}\n" + "a b " * words + arguments["command"])

    drive(run, model, toolbox(run, bash=bash))
    return model, read_trace(run.path)


def test_an_efficient_run_shortens_old_results_before_a_request_is_too_long(tmp_path: Path) -> None:
    model, trace = played(tmp_path, "efficient", Silent())
    assert trace.turns == TURNS and 0.7 * WINDOW < model.longest < 1.1 * WINDOW
    overflows = [event for event in trace.events if isinstance(event, ModelCallFailed)]
    assert len(overflows) == sum(isinstance(event, Compacted) for event in trace.events) > 1
    assert not any(event.may_be_billed for event in overflows), "nothing was sent"
    assert sum(isinstance(event, ModelReplied) for event in trace.events) == TURNS


@pytest.mark.parametrize("protocol", ["default", "paper"])
def test_the_other_protocols_end_there_with_a_sentence(tmp_path: Path, protocol: str) -> None:
    model, trace = played(tmp_path, protocol, Silent())
    assert trace.finished is not None and trace.finished.stop_reason is StopReason.CONTEXT_OVERFLOW
    assert 0 < trace.turns < TURNS and 0.7 * WINDOW < model.longest < 1.1 * WINDOW
    (failed,) = (event for event in trace.events if isinstance(event, ModelCallFailed))
    assert "row in the table of models says context_tokens = 6000" in failed.reason
    assert "--protocol efficient" in failed.reason


def test_where_nobody_counts_and_where_no_row_says_it_the_provider_decides(tmp_path: Path) -> None:
    model, trace = played(tmp_path, "default", Silent(counts=False))
    assert trace.turns == TURNS and model.longest > WINDOW


class Sharing(Silent):
    """A model behind a server whose window holds input and output: it cuts a reply that needs more than is left.

    Each needs `output` tokens, most of them for thoughts that are not sent again.
    """

    def __init__(self, output: int) -> None:
        super().__init__()
        self._output = output

    def complete(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> ModelReply:
        whole = super().complete(messages, tools)
        tokens = whole.usage.input_tokens or 0
        left = max(WINDOW - tokens, 1)
        if left >= self._output:
            return replace(whole, usage=Usage(tokens, 0, 0, self._output))
        cut = {"role": "assistant", "content": "I will"}
        return replace(whole, message=cut, finish_reason="length", usage=Usage(tokens, 0, 0, left))


@pytest.mark.parametrize(("words", "output"), [(284, 60), (288, 60), (320, 60), (300, 500), (350, 900)])
def test_a_reply_that_the_window_cuts_is_no_end_by_the_model(words: int, output: int, tmp_path: Path) -> None:
    _, trace = played(tmp_path, "default", Sharing(output), words=words)
    assert trace.finished is not None and trace.finished.stop_reason is StopReason.CONTEXT_OVERFLOW
    _, trace = played(tmp_path / "efficient", "efficient", Sharing(output), words=words)
    assert trace.turns == TURNS


def test_a_reply_is_cut_by_the_window_or_by_another_limit() -> None:
    cut = LAST.model_copy(update={"finish_reason": "length"})
    assert Window("m", 1_000).cut(cut) and not Window("m", 1_010).cut(cut) and not Window("m").cut(cut)
    assert not Window("m", 995).cut(LAST) and not Window("m", 995).cut(None)
    assert not Window("m", 995).cut(cut.model_copy(update={"usage": Usage.unknown()}))


def test_room_is_left_for_a_reply_where_old_results_can_be_shortened() -> None:
    said: list[Message] = [OPENING, {"role": "assistant", "content": ""}]
    Window("m", 995).require_room(said, LAST, 0, 900)
    with pytest.raises(ContextOverflow, match="has about 95 tokens, a reply may have 900, and its row"):
        Window("m", 994).require_room(said, LAST, 0, 900)


def fits(tokens: int, messages: list[Message], last: ModelReplied | None, shortened: int = 0) -> bool:
    try:
        Window("m", tokens).require_room(messages, last, shortened)
    except ContextOverflow:
        return False
    return True


LAST = ModelReplied(
    call=1, turn=1, message={}, finish_reason=None, usage=Usage(50, 10, 35, 900), cost_usd=None, seconds=1.0
)
OPENING: Message = {"role": "user", "content": "word " * 500}


def test_what_was_counted_is_not_counted_again_and_what_was_taken_out_is_not_in_it() -> None:
    said: list[Message] = [OPENING, {"role": "assistant", "content": ""}]
    assert fits(95, said, LAST) and not fits(94, said, LAST)
    assert fits(46, said, LAST, 41) and not fits(45, said, LAST, 41)
    assert fits(1, said[:1], None)
    Window("m").require_room(said, LAST, 0)


def test_only_what_is_surely_too_long_is_refused() -> None:
    """Other tokenizers may need less than ours for what came since; it is told as it was counted."""
    answer: Message = {"role": "tool", "tool_call_id": "c1", "content": "word " * 1_000}
    said, about = [OPENING, {"role": "assistant", "content": ""}, answer], 95 + count_content(answer)
    assert fits(about, said, LAST) and fits(95 + (about - 95) * 9 // 10, said, LAST)
    with pytest.raises(ContextOverflow, match=f"has about {about:,} tokens"):
        Window("m", 95 + (about - 95) * 7 // 10).require_room(said, LAST, 0)


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning_items", "thinking_blocks"])
def test_reasoning_that_may_not_be_sent_again_is_not_counted(field: str) -> None:
    said: list[Message] = [OPENING, {"role": "assistant", "content": "", field: "a thought " * 5_000}]
    assert fits(95, said, LAST)


@pytest.mark.parametrize(
    "text", ["\x1b[31mred\x1b[0m\t\x1b[1m", 'def run(a: str = "x"):\n    return "\\n"\n', "größe\\"]
)
def test_texts_are_counted_as_they_are_and_not_as_json_writes_them(text: str) -> None:
    call = {"function": {"name": "write", "arguments": text * 100}}
    message: Message = {"role": "assistant", "content": text * 100, "tool_calls": [call]}
    assert count_content(message) == 2 * count_tokens(text * 100) + 1
    assert count_content({"role": "user", "content": [{"type": "text", "text": text}]}) == count_tokens(text)
