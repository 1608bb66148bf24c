"""The beginning of a request is what the provider's cache holds: random runs, interrupted anywhere, keep it."""

from __future__ import annotations

import itertools
import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from d2k_agent.agent.compaction import KEPT_TURNS, MARK
from d2k_agent.config import PROTOCOLS
from d2k_agent.models import Message, ModelReply
from d2k_agent.models.cache_simulator import SimulatedModel
from d2k_agent.models.caching import MARKED, CacheRules, rules_of
from d2k_agent.records import CacheChecked, Compacted, Event, ModelReplied, RunFolder, Trace, read_trace
from d2k_agent.toolbox import HostAnswer, Toolbox
from tests.agent.scene import call, drive, hand_in, new_run, reply, request_bytes, scripted, toolbox

OPENAI = rules_of("openai", marks=False, own_server=False)


@dataclass
class Watched:
    """A model whose requests are noted, each as the bytes of its items."""

    model: Any
    requests: list[list[bytes]] = field(default_factory=list)
    name: str = "scripted/test"

    def complete(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> ModelReply:
        items = [request_bytes((), tools), *(request_bytes([message], ())[2:] for message in messages)]
        self.requests.append(items)
        answer: ModelReply = self.model.complete(messages, tools)
        return answer


def words(choices: random.Random, many: int) -> str:
    return " ".join(str(choices.randrange(10**6)) for _ in range(many))


def script_of(choices: random.Random, replies: int) -> list[Any]:
    makers = [
        lambda: "no call \udcff é",
        lambda: hand_in(f"# speedup {1 + choices.random():.3f}\n"),
        lambda: reply(*[call("bash", command=words(choices, 5)) for _ in range(choices.randrange(1, 40))]),
        lambda: {"content": None, "tool_calls": [{"id": "same", "function": {"name": "bash", "arguments": "{"}}] * 2},
        lambda: {"content": [{"type": "text", "text": "hm"}], "thinking_blocks": [{"signature": "s"}]},
        lambda: reply(call("bash", command=f"long {words(choices, 2)}")),
        lambda: reply(call("bash", command=f"long {words(choices, 2)}"), call("compile")),
        lambda: reply(call("bash", command=f"long {words(choices, 2)}"), call("read", path="solution.py")),
    ]
    return [choices.choice(makers)() for _ in range(replies)]


def talking(run: RunFolder) -> Toolbox:
    """The run's tools; commands that begin with `long` have much to say, the same each time."""

    def bash(arguments: Mapping[str, Any]) -> HostAnswer:
        command = arguments["command"]
        return HostAnswer("ok", f"ran {command}\n{words(random.Random(command), 900) if 'long' in command else ''}")

    return toolbox(run, bash=bash)


def interrupting(seqs: Sequence[int]) -> Any:
    """A watcher that presses Ctrl-C behind each of these events, once."""
    left = set(seqs)

    def watch(event: Event) -> None:
        if event.seq in left:
            left.discard(event.seq)
            raise KeyboardInterrupt

    return watch


def drive_to_the_end(run: RunFolder, script: list[Any], rules: CacheRules, seqs: Sequence[int]) -> list[list[bytes]]:
    """Every request of the run; each interruption is followed by a process that knows nothing but the folder."""
    watch, requests = interrupting(seqs), []
    clock = itertools.count().__next__
    provider = Watched(SimulatedModel(scripted(script), rules, lambda: float(clock())), requests)
    for _ in range(len(seqs) + 1):
        try:
            drive(run, provider, talking(run), watch)
        except KeyboardInterrupt:
            continue
        return requests
    raise AssertionError("the run never ended")


def shared(before: list[bytes], after: list[bytes]) -> int:
    """How many items two requests begin with alike."""
    return len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))))


def compactions(trace: Trace) -> list[Compacted]:
    return [event for event in trace.events if isinstance(event, Compacted)]


@settings(max_examples=8, deadline=None)
@given(
    seed=some.integers(0, 10**6),
    protocol=some.sampled_from(PROTOCOLS),
    rules=some.sampled_from([MARKED, OPENAI]),
    seqs=some.lists(some.integers(1, 120), max_size=4),
)
def test_a_random_run_sends_the_same_beginning_again_but_where_it_was_shortened(
    seed: int, protocol: str, rules: CacheRules, seqs: list[int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = new_run(Path(folder) / "r", turns=40, protocol=protocol, wording="brief")
        requests = drive_to_the_end(run, script_of(random.Random(seed), 30), rules, seqs)
        trace = read_trace(run.path)
    breaks = [
        (before, after)
        for before, after in itertools.pairwise(requests)
        if shared(before, after) < min(len(before), len(after))
    ]
    assert len(breaks) == len(compactions(trace))
    for before, after in itertools.pairwise(requests):
        assert len(after) >= len(before)
    for before, after in breaks:
        first = shared(before, after)
        assert MARK.encode() in after[first] and MARK.encode() not in before[first]
        assert len(after[first]) < len(before[first])
    if protocol != "efficient":
        assert not breaks


@settings(max_examples=6, deadline=None)
@given(seed=some.integers(0, 10**6), rules=some.sampled_from([MARKED, OPENAI]), protocol=some.sampled_from(PROTOCOLS))
def test_what_a_simulated_provider_reads_is_what_was_expected_but_where_it_was_shortened(
    seed: int, rules: CacheRules, protocol: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = new_run(Path(folder) / "r", turns=40, protocol=protocol, wording="brief")
        drive_to_the_end(run, script_of(random.Random(seed), 25), rules, ())
        trace = read_trace(run.path)
    checks = [event for event in trace.events if isinstance(event, CacheChecked)]
    assert len(checks) == sum(isinstance(event, ModelReplied) for event in trace.events)
    shortened = {event.call for event in compactions(trace)}
    for check in checks:
        if check.call in shortened:
            assert check.observed < check.expected
            assert check.why is not None and "became a digest, the first of them the answer to" in check.why
        else:
            assert (check.observed, check.why) == (check.expected, None)


LONG = [reply(call("bash", command=f"long {number}")) for number in range(30)]


def efficient(folder: Path, seqs: Sequence[int] = ()) -> tuple[Trace, list[list[bytes]]]:
    run = new_run(folder, turns=40, protocol="efficient", wording="brief")
    requests = drive_to_the_end(run, LONG, MARKED, seqs)
    return read_trace(run.path), requests


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trace, list[list[bytes]]]:
    return efficient(tmp_path_factory.mktemp("long") / "r")


def test_old_results_are_shortened_rarely_in_one_step_and_recent_ones_stay(
    long_run: tuple[Trace, list[list[bytes]]],
) -> None:
    trace, requests = long_run
    steps = compactions(trace)
    assert 1 <= len(steps) <= 3
    for step in steps:
        assert len(step.results) > 1
        assert f"{step.saved_tokens:,} x 0.1 x" in step.why and f"{step.rewritten_tokens:,} x (1.25 - 0.1)" in step.why
        whole = [item for item in requests[step.call - 1] if b'"role": "tool"' in item and MARK.encode() not in item]
        assert len(whole) == KEPT_TURNS


def test_what_is_left_out_is_what_the_provider_sees_less(long_run: tuple[Trace, list[list[bytes]]]) -> None:
    trace, _ = long_run
    step = compactions(trace)[0]
    used = {event.call: event.usage for event in trace.events if isinstance(event, ModelReplied)}
    before, after = used[step.call - 1], used[step.call]
    total = [(u.uncached_input or 0) + (u.cache_write or 0) + (u.cache_read or 0) for u in (before, after)]
    news = total[0] - (before.cache_read or 0)  # one turn is like another here
    assert total[1] == pytest.approx(total[0] + news - step.saved_tokens, abs=0.02 * step.saved_tokens)
    # The opening, which is below the least length that is cached here, is written too.
    assert after.cache_write == pytest.approx(step.rewritten_tokens, rel=0.05)


def events_around_the_first_step(trace: Trace) -> Iterator[int]:
    seq = compactions(trace)[0].seq
    yield from range(seq - 1, seq + 3)


def test_interrupted_in_the_middle_of_it_a_run_sends_the_same_bytes(
    tmp_path: Path, long_run: tuple[Trace, list[list[bytes]]]
) -> None:
    trace, expected = long_run
    for seq in events_around_the_first_step(trace):
        again, requests = efficient(tmp_path / str(seq), [seq])
        distinct = [request for request, after in itertools.pairwise([*requests, []]) if request != after]
        assert distinct == expected
        assert [step.results for step in compactions(again)] == [step.results for step in compactions(trace)]


def test_the_conversation_of_the_record_is_as_it_was_told(long_run: tuple[Trace, list[list[bytes]]]) -> None:
    trace, _ = long_run
    told = [message["content"] for message in trace.messages() if message["role"] == "tool"]
    assert len(told) == len(LONG) and not any(MARK in text for text in told)
