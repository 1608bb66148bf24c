"""The whole loop against a provider over HTTP that caches by marks: it sees what litellm really sends."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from d2k_agent.config import ModelOptions
from d2k_agent.models.litellm_client import LiteLLMModel
from d2k_agent.records import CacheChecked, Compacted, ModelReplied, Trace, read_trace
from d2k_agent.toolbox import HostAnswer
from tests.agent.scene import drive, new_run, toolbox
from tests.models.provider import KEY, Player, Provider, Quiet

MOST_MARKS, LOOKBACK, LEAST_TOKENS = 4, 20, 1024
TURNS = 40


class MarkedCache:
    """The published rules, over the blocks of a request: tools, system, content of messages."""

    def __init__(self) -> None:
        self.entries: set[str] = set()
        self.most_marks = 0

    def usage(self, body: Mapping[str, Any]) -> dict[str, int]:
        blocks = [*body.get("tools", ()), *body["system"]]
        blocks += [{"role": m["role"], **block} for m in body["messages"] for block in m["content"]]
        marks = [at for at, block in enumerate(blocks) if "cache_control" in block]
        self.most_marks = max(self.most_marks, len(marks))
        keys, upto, key, tokens = [], [], "", 0
        for block in blocks:
            text = json.dumps({name: value for name, value in block.items() if name != "cache_control"})
            key, tokens = hashlib.sha256((key + text).encode()).hexdigest(), tokens + len(text) // 4
            keys.append(key)
            upto.append(tokens)
        looked_at = (at for mark in reversed(marks) for at in range(mark, max(-1, mark - LOOKBACK - 1), -1))
        found = next((at for at in looked_at if keys[at] in self.entries), None)
        read = 0 if found is None else upto[found]
        self.entries |= {keys[mark] for mark in marks if upto[mark] >= LEAST_TOKENS}
        written = upto[marks[-1]] - read
        return {
            "input_tokens": upto[-1] - read - written,
            "cache_creation_input_tokens": written,
            "cache_read_input_tokens": read,
            "output_tokens": 20,
        }


class CachingProvider(Player):
    """Asks for one command a reply, with its thinking signed, until `TURNS` of them were run."""

    cache: MarkedCache

    def do_POST(self) -> None:  # noqa: N802 - the base class's name
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.provider.seen.append({"body": body})
        number = len(self.provider.seen)
        thinking = {"type": "thinking", "thinking": f"step {number}", "signature": f"SIG-{number}=="}
        use = {"type": "tool_use", "id": f"toolu_{number}", "name": "bash", "input": {"command": f"step {number}"}}
        content = [thinking, use] if number <= TURNS else [{"type": "text", "text": "done"}]
        answer = {"id": "msg", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
        answer |= {"content": content, "stop_reason": "tool_use" if number <= TURNS else "end_turn"}
        self._send(200, json.dumps({**answer, "usage": self.cache.usage(body)}).encode(), {})


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    handler = type("Handler", (CachingProvider,), {"cache": MarkedCache()})
    server = Quiet(("127.0.0.1", 0), handler)
    running = handler.provider = Provider([], server)  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield running
    assert handler.cache.most_marks == MOST_MARKS  # type: ignore[attr-defined]
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def trace(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """An efficient run whose answers are long, driven by two processes, as far as the loop can tell."""
    run = new_run(tmp_path_factory.mktemp("http") / "r", turns=100, protocol="efficient", wording="brief")

    def bash(arguments: Mapping[str, Any]) -> HostAnswer:
        command = arguments["command"]
        return HostAnswer("ok", f"ran {command}\n" + " ".join(f"{command}:{word}" for word in range(400)))

    def at_reply_12(event: Any) -> None:
        if isinstance(event, ModelReplied) and event.call == 12:
            raise KeyboardInterrupt

    def model() -> LiteLLMModel:
        options = ModelOptions(api_base=provider.url)
        return LiteLLMModel("anthropic/claude-opus-4-8", options, {"ANTHROPIC_API_KEY": KEY})

    with pytest.raises(KeyboardInterrupt):
        drive(run, model(), toolbox(run, bash=bash), at_reply_12)
    drive(run, model(), toolbox(run, bash=bash))
    return read_trace(run.path)


def test_each_request_reads_all_that_the_one_before_it_left_but_after_a_digest(trace: Trace) -> None:
    checks = [event for event in trace.events if isinstance(event, CacheChecked)]
    digests = {event.call for event in trace.events if isinstance(event, Compacted)}
    assert len(checks) >= TURNS and 1 <= len(digests) <= 4
    for check in checks:
        if check.call in digests:
            assert check.observed < check.expected and "became a digest" in str(check.why)
        else:
            assert (check.observed, check.why) == (check.expected, None)


def test_a_later_digest_reads_what_the_one_before_it_left(trace: Trace) -> None:
    digests = [event for event in trace.events if isinstance(event, Compacted)]
    checks = {event.call: event for event in trace.events if isinstance(event, CacheChecked)}
    used = {event.call: event.usage for event in trace.events if isinstance(event, ModelReplied)}
    assert len(digests) > 1
    for digest in digests[1:]:
        assert checks[digest.call].observed > 1_000
        written = used[digest.call].cache_write or 0
        assert written < 1.6 * digest.rewritten_tokens, "the provider counts a token as four letters here"


def test_thinking_goes_back_whole_through_digest_and_resume(provider: Provider, trace: Trace) -> None:
    last = provider.bodies[TURNS]["messages"]
    signed = [block["signature"] for m in last for block in m["content"] if block.get("type") == "thinking"]
    assert signed == [f"SIG-{number}==" for number in range(1, TURNS + 1)]
