"""What the sample run's observations take in tokens under the three protocols, and what the run costs at three prices.

    python benchmarks/tokens.py [--turns 350] [--json FILE]

The product's loop is driven by the recorded replies. Each tool call is answered with what was recorded (traces/samples/
muon), worded as the protocol words it: in tables (paper), briefly (default), and briefly with old answers shortened
(efficient). Under `paper` the calls of tools that it does not have are left out. Nobody is asked: input by bucket is
that of a simulated cache with the provider's rules, at the recorded moments, and tokens are counted on this machine,
which no provider does alike. The second table goes on with the same turns over and over, in a run of --turns turns,
each answer marked so that it is a new one.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.sample.rewording import worded
from d2k_agent.agent import run_agent
from d2k_agent.app.tool_sets import PAPER_TOOLS
from d2k_agent.catalog import samples_dir
from d2k_agent.config import PROTOCOLS, ModelOptions, RunConfig, Settings
from d2k_agent.models import PriceRow, ScriptedModel
from d2k_agent.models.cache_simulator import SimulatedModel
from d2k_agent.models.caching import MARKED, CacheRules, rules_of
from d2k_agent.models.litellm_client import find_price
from d2k_agent.models.tokens import count_tokens
from d2k_agent.records import (
    Compacted,
    ConversationStarted,
    ModelCallStarted,
    ModelReplied,
    RunFolder,
    RunRecord,
    ToolFinished,
    Trace,
    cost_at,
    read_trace,
)
from d2k_agent.reports.cost_text import prices_text
from d2k_agent.reports.tables import table
from d2k_agent.toolbox import ToolCall, ToolResult

ROWS: dict[str, CacheRules] = {
    "anthropic/claude-opus-4-8": MARKED,
    "openai/gpt-5.5": rules_of("openai", marks=False, own_server=False),
    "deepseek/deepseek-v4-pro": rules_of("deepseek", marks=False, own_server=False),
}
"""Models whose prices ship, with the rules of their providers' caches."""
METHOD = (
    "Nobody was asked: tokens are counted on this machine, which no provider does alike, and what is read from a cache "
    "or written to it is that of a simulated one with the provider's rules. Profiles were recorded without a "
    "diagnosis: one that has it is longer."
)


@dataclass(frozen=True)
class Step:
    """One recorded reply: its message, the moment it was asked for in seconds, and its answers."""

    message: dict[str, Any]
    asked_s: float
    answers: tuple[ToolFinished, ...]


@dataclass
class Played:
    """One protocol at one price. Observations are counted in tokens by tool."""

    protocol: str
    model: str
    turns: int = 0
    observations: Counter[str] = field(default_factory=Counter)
    tokens: dict[str, int | None] = field(default_factory=dict)
    cost_usd: float | None = None
    ttl_s: list[int] = field(default_factory=list)
    compactions: int = 0


class Recorded:
    """Tools that give the recorded answers in order, each to the call that asks."""

    def __init__(self, schemas: Sequence[dict[str, Any]], answers: Sequence[ToolResult]) -> None:
        self._schemas, self._answers = list(schemas), iter(answers)

    def schemas(self) -> list[dict[str, Any]]:
        return self._schemas

    def file_before(self, call: ToolCall) -> str | None:
        """No call changes a file here."""
        return None

    def call(self, call: ToolCall, file_before: str | None = None) -> ToolResult:
        return replace(next(self._answers), call_id=call.id, name=call.name)


def steps_of(trace: Trace) -> list[Step]:
    """The recorded replies in order."""
    found: list[Step] = []
    asked_s = 0.0
    for event in trace.events:
        if isinstance(event, ModelCallStarted) and event.time is not None:
            asked_s = event.time.timestamp()
        elif isinstance(event, ModelReplied):
            found.append(Step(event.message, asked_s, ()))
        elif isinstance(event, ToolFinished):
            found[-1] = replace(found[-1], answers=(*found[-1].answers, event))
    return found


def files_read(steps: Sequence[Step]) -> dict[str, str]:
    """The files that were read, by path, as they were when they were read first."""
    found: dict[str, str] = {}
    for step in steps:
        for call, answer in zip(step.message.get("tool_calls", ()), step.answers, strict=False):
            if answer.name == "read":
                found.setdefault(json.loads(call["function"]["arguments"])["path"], answer.text)
    return found


def under(protocol: str, steps: Sequence[Step]) -> list[Step]:
    """The steps less what the protocol has no tool for; a reply of which nothing is left is no step."""
    if protocol != "paper":
        return list(steps)
    kept = []
    for step in steps:
        calls = [call for call in step.message.get("tool_calls", ()) if call["function"]["name"] in PAPER_TOOLS]
        if calls or not step.answers:
            message = {**step.message, **({"tool_calls": calls} if calls else {})}
            answers = tuple(answer for answer in step.answers if answer.name in PAPER_TOOLS)
            kept.append(Step(message, step.asked_s, answers))
    return kept


def repeated(steps: Sequence[Step], turns: int) -> list[Step]:
    """The steps with calls over and over, `turns` of them; each round has call ids and moments of its own."""
    working = [step for step in steps if step.answers]
    lasts = steps[-1].asked_s - steps[0].asked_s
    found = []
    for number in range(turns):
        lap, step = number // len(working), working[number % len(working)]
        calls = [{**call, "id": f"{call['id']}_{lap}"} for call in step.message["tool_calls"]]
        message = {**step.message, "tool_calls": calls}
        found.append(Step(message, step.asked_s + lap * lasts, step.answers))
    return found


def play(
    trace: Trace, steps: Sequence[Step], protocol: str, model: str, price: PriceRow, limit: int, *, mark: bool
) -> Played:
    """Drive the product's loop over the steps, in a run that is allowed `limit` turns.

    `mark`: each answer ends with its number, so that none was given before.
    """
    wording = Settings(protocol=protocol).resolve("muon", "scripted/benchmark", ()).wording
    texts = [worded(trace, answer, wording) for step in steps for answer in step.answers]
    texts = [f"{text}\n(answer {number})" for number, text in enumerate(texts)] if mark else texts
    answers = [ToolResult("", "", "ok", text, 0.0, {}) for text in texts]
    (schemas,) = [event.tools for event in trace.events if isinstance(event, ConversationStarted)]
    schemas = [tool for tool in schemas if protocol != "paper" or tool["function"]["name"] in PAPER_TOOLS]
    config = RunConfig("muon", "scripted/benchmark", protocol=protocol, wording=wording, turns=limit)
    record = RunRecord(
        run_id="r", config=config, task_slug="muon", task_digest="", workloads=trace.run.workloads, price=price
    )
    files = files_read(steps_of(trace))
    moments = iter([step.asked_s for step in steps])
    replies = ScriptedModel([step.message for step in steps])
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder.create(Path(folder) / "run", record)
        for name in trace.run.staged:
            (run.workspace / name).write_text(files.get(name, ""))
        simulated = SimulatedModel(replies, ROWS[model], lambda: next(moments, 0.0), price)
        run_agent(run, config, simulated, Recorded(schemas, answers), lambda event: None)
        played = read_trace(run.path)
    return _summed(played, Played(protocol, model), price)


def _summed(played: Trace, into: Played, price: PriceRow) -> Played:
    into.turns = played.turns
    for event in played.events:
        if isinstance(event, ToolFinished):
            into.observations[event.name] += count_tokens(event.text)
        elif isinstance(event, ModelReplied) and event.cache and event.cache.ttl_s not in into.ttl_s:
            into.ttl_s.append(event.cache.ttl_s)
        into.compactions += isinstance(event, Compacted)
    cost = cost_at(played.events, price)
    usage = cost.totals.usage
    into.tokens = {name: getattr(usage, name) for name in ("uncached_input", "cache_write", "cache_read", "output")}
    into.cost_usd = None if cost.total_usd is None else float(cost.total_usd)
    return into


def observations_table(trace: Trace, played: Sequence[Played]) -> str:
    """Tokens of what the tools answered, a row a tool; first as it was recorded, in tables."""
    recorded: Counter[str] = Counter()
    for event in trace.events:
        if isinstance(event, ToolFinished):
            recorded[event.name] += count_tokens(event.text)
    columns = {"recorded": recorded, **{item.protocol: item.observations for item in played}}
    header = ("observations of", *columns)
    rows = [
        (name, *(f"{column[name]:,}" if column[name] else "-" for column in columns.values()))
        for name in sorted(recorded)
    ]
    rows.append(("all, in tokens", *(f"{column.total():,}" for column in columns.values())))
    rows.append(("turns", str(trace.turns), *(str(item.turns) for item in played)))
    return table(header, rows, header[1:])


def cost_table(played: Sequence[Played]) -> str:
    """Tokens and dollars, a row a price and a protocol."""
    header = (
        "price row",
        "protocol",
        "turns",
        "uncached",
        "cache write",
        "cache read",
        "output",
        "US$",
        "digests",
        "ttl",
    )
    rows = [
        (
            item.model,
            item.protocol,
            str(item.turns),
            *("-" if value is None else f"{value:,}" for value in item.tokens.values()),
            "unknown" if item.cost_usd is None else f"{item.cost_usd:.4f}",
            str(item.compactions),
            ", ".join(f"{ttl_s // 60} min" for ttl_s in item.ttl_s),
        )
        for item in played
    ]
    return table(header, rows, header[2:-1])


def played_by_all(trace: Trace, prices: dict[str, PriceRow], turns: int | None) -> Iterator[Played]:
    """Every protocol at every price; in a run of `turns` turns, None: as recorded."""
    for model, price in prices.items():
        for protocol in ("paper", "default", "efficient"):
            steps = under(protocol, steps_of(trace))
            steps = steps if turns is None else repeated(steps, turns)
            limit = trace.run.config.turns if turns is None else turns
            yield play(trace, steps, protocol, model, price, limit, mark=turns is not None)


def tables(trace: Trace, prices: dict[str, PriceRow], sample: Sequence[Played], longer: Sequence[Played]) -> str:
    """Everything that is printed. `longer` may be empty."""
    parts = [observations_table(trace, sample[: len(PROTOCOLS)]), cost_table(sample)]
    if longer:
        parts.append(f"The same turns over and over:\n{cost_table(longer)}")
    return "\n\n".join([*parts, METHOD, prices_text(list(prices.values()))])


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=350, help="turns of the second table (0: leave it out)")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    options = parser.parse_args()
    if options.turns < 0:
        parser.error(f"--turns must be 0 or more, not {options.turns}")
    trace = read_trace(samples_dir() / "muon")
    found = {name: find_price(name, ModelOptions()) for name in ROWS}
    prices = {name: row for name, row in found.items() if row is not None}
    sample = list(played_by_all(trace, prices, None))
    longer = list(played_by_all(trace, prices, options.turns)) if options.turns > 0 else []
    print(tables(trace, prices, sample, longer))
    if options.json:
        data = {"prices": list(prices), "sample": list(map(vars, sample)), "longer": list(map(vars, longer))}
        options.json.write_text(json.dumps(data, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
