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
from d2k_agent.models.tokens import count_message
from d2k_agent.records import Compacted, ModelCallFailed, ModelReplied, RunFolder, RunRecord, Trace, read_trace
from d2k_agent.toolbox import HostAnswer
from tests.agent.scene import call, drive, reply, scripted, toolbox

WINDOW = 6_000
TURNS = 30


class Silent:
    """A model behind a server that says how long a request is, and never that it is too long."""

    name = "scripted/test"

    def __init__(self, counts: bool) -> None:
        self.longest = 0
        self._counts = counts
        self._model = scripted([reply(call("bash", command=str(number))) for number in range(TURNS)])

    def complete(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> ModelReply:
        tokens = sum(map(count_message, [*messages, *tools]))
        self.longest = max(self.longest, tokens)
        usage = Usage(tokens, 0, 0, 20) if self._counts else Usage.unknown()
        return replace(self._model.complete(messages, tools), usage=usage)


def played(folder: Path, protocol: str, *, counts: bool = True) -> tuple[Silent, Trace]:
    config = RunConfig(task="muon", model="scripted/test", turns=TURNS, protocol=protocol, wording="brief")
    quirks = Quirks(context_tokens=WINDOW)
    record = RunRecord(run_id="r", config=config, task_slug="m", task_digest="d", workloads=("w",), quirks=quirks)
    run = RunFolder.create(folder / "run", record)

    def bash(arguments: Mapping[str, Any]) -> HostAnswer:
        return HostAnswer("ok", f"ran {arguments['command']}\n" + "a b " * 300 + arguments["command"])

    model = Silent(counts)
    drive(run, model, toolbox(run, bash=bash))
    return model, read_trace(run.path)


def test_an_efficient_run_shortens_old_results_before_a_request_is_too_long(tmp_path: Path) -> None:
    model, trace = played(tmp_path, "efficient")
    assert trace.turns == TURNS and 0.7 * WINDOW < model.longest <= WINDOW
    overflows = [event for event in trace.events if isinstance(event, ModelCallFailed)]
    assert len(overflows) == sum(isinstance(event, Compacted) for event in trace.events) > 1
    assert not any(event.may_be_billed for event in overflows), "nothing was sent"
    assert sum(isinstance(event, ModelReplied) for event in trace.events) == TURNS


@pytest.mark.parametrize("protocol", ["default", "paper"])
def test_the_other_protocols_end_there_with_a_sentence(tmp_path: Path, protocol: str) -> None:
    model, trace = played(tmp_path, protocol)
    assert trace.finished is not None and trace.finished.stop_reason is StopReason.CONTEXT_OVERFLOW
    assert 0 < trace.turns < TURNS and 0.7 * WINDOW < model.longest <= WINDOW
    (failed,) = (event for event in trace.events if isinstance(event, ModelCallFailed))
    assert "row in the table of models says context_tokens = 6000" in failed.reason


def test_where_nobody_counts_and_where_no_row_says_it_the_provider_decides(tmp_path: Path) -> None:
    model, trace = played(tmp_path, "default", counts=False)
    assert trace.turns == TURNS and model.longest > WINDOW


def test_what_was_counted_is_not_counted_again_and_what_was_taken_out_is_not_in_it() -> None:
    last = ModelReplied(
        call=1, turn=1, message={}, finish_reason=None, usage=Usage(50, 10, 35, 900), cost_usd=None, seconds=1.0
    )
    said: list[Message] = [{"role": "user", "content": "word " * 500}, {"role": "assistant", "content": ""}]
    new = count_message(said[1])
    Window("m", 95 + new).require_room(said, last, 0)
    with pytest.raises(ContextOverflow, match=f"has about {95 + new} tokens"):
        Window("m", 94 + new).require_room(said, last, 0)
    Window("m", 54 + new).require_room(said, last, 41)
    reasoned = {"role": "assistant", "content": "", "reasoning_items": [{"encrypted_content": "gAAAAx7Q" * 500}]}
    assert count_message(reasoned) > 900
    Window("m", 995).require_room([said[0], reasoned], last, 0)
    Window("m").require_room(said, last, 0)
    Window("m", 1).require_room(said[:1], None, 0)
