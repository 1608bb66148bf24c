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
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from d2k_agent.agent import run_agent
from d2k_agent.catalog import samples_dir
from d2k_agent.config import PROTOCOLS, ModelOptions, RunConfig, Settings
from d2k_agent.contract import CompileReport, JobKind, KernelProfile, KernelReport, Profile, Verdict, WorkloadResult
from d2k_agent.contract.wire import from_data
from d2k_agent.models import PriceRow, ScriptedModel
from d2k_agent.models.cache_simulator import SimulatedModel
from d2k_agent.models.caching import MARKED, CacheRules, rules_of
from d2k_agent.models.litellm_client import find_price
from d2k_agent.models.tokens import count_tokens
from d2k_agent.records import (
    Compacted,
    ConversationStarted,
    Measured,
    ModelCallStarted,
    ModelReplied,
    RunFolder,
    RunRecord,
    ToolFinished,
    Trace,
    VerdictReached,
    WorkloadTime,
    cost_at,
    read_trace,
)
from d2k_agent.reports.brief_compile import brief_compile
from d2k_agent.reports.brief_profile import brief_profile
from d2k_agent.reports.brief_text import brief_answer
from d2k_agent.reports.compile_text import compile_text
from d2k_agent.reports.cost_text import prices_text
from d2k_agent.reports.profile_text import profile_text
from d2k_agent.reports.tables import table
from d2k_agent.toolbox import ToolCall, ToolResult

PAPER_TOOLS = ("read", "write", "bash", "submit")
ROWS: dict[str, CacheRules] = {
    "anthropic/claude-opus-4-8": MARKED,
    "openai/gpt-5.5": rules_of("openai", marks=False, own_server=False),
    "deepseek/deepseek-v4-pro": rules_of("deepseek", marks=False, own_server=False),
}
"""Models whose prices ship, with the rules of their providers' caches."""
METHOD = (
    "Nobody was asked: tokens are counted on this machine, which no provider does alike, and what is read from a cache "
    "or written to it is that of a simulated one with the provider's rules."
)
_COLUMNS = re.compile(r" {2,}")
_KERNEL = re.compile(r"(\w+):(\d+)")


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
    """Tools that give the recorded answers, in order, in the wording of a protocol."""

    def __init__(self, schemas: Sequence[dict[str, Any]], texts: Sequence[str]) -> None:
        self._schemas, self._texts = list(schemas), iter(texts)

    def schemas(self) -> list[dict[str, Any]]:
        return self._schemas

    def file_before(self, call: ToolCall) -> str | None:
        """No call changes a file here."""
        return None

    def call(self, call: ToolCall, file_before: str | None = None) -> ToolResult:
        return ToolResult(call.id, call.name, "ok", next(self._texts), 0.0, {})


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


def worded(trace: Trace, answer: ToolFinished, wording: str) -> str:
    """The answer in a wording; what was recorded is the tables."""
    if wording == "tables":
        return answer.text
    if answer.name == "compile":
        return brief_compile(read_compile(answer.text))
    if answer.name == "profile":
        return brief_profile(read_profile(answer.text))
    if answer.name == "submit":
        return brief_answer(JobKind.EVALUATE, verdict_of(trace, answer))
    return answer.text


def verdict_of(trace: Trace, answer: ToolFinished) -> Verdict:
    """The verdict that a submission got, from what was recorded of it."""
    key = (answer.turn, answer.call_id)
    (found,) = [e.verdict for e in trace.events if isinstance(e, VerdictReached) and (e.turn, e.call_id) == key]
    (times,) = [e.times for e in trace.events if isinstance(e, Measured) and (e.turn, e.call_id) == key]
    measured = {item.label: item for item in times.workloads}
    results = []
    for item in found.workloads:
        time = measured.get(item.label) or WorkloadTime(label=item.label)
        mean_ms = time.measurement.mean_ms if time.measurement else None
        head = (item.label, item.status, item.checks, item.registered, mean_ms, time.speedup, item.rel_norm)
        results.append(WorkloadResult(*head, time.measurement, time.message, time.baseline))
    report = found.compile_report
    return Verdict(
        status=found.status,
        candidate_sha256=found.candidate_sha256,
        message=times.message,
        environment=found.environment,
        workloads=tuple(results),
        compile_report=None if report is None else from_data(CompileReport, {"seconds": 0.0, **report}),
        peak_memory_bytes=found.peak_memory_bytes,
        geomean_speedup=times.geomean_speedup,
        notes=times.notes,
        baseline_sha256=times.baseline_sha256,
        drift=times.drift,
    )


def read_compile(text: str) -> CompileReport:
    """The report that compile_text() made `text` of. Raises ValueError for what it did not make."""
    text = text.removeprefix("Status: compile_error\n\n")
    head, _, rows = text.partition("\n\n")
    fields = re.fullmatch(r"(?:Compiles|Does not compile) for (\w+) \((\w+), Triton ([\d.]+)\): (.*)", head, re.DOTALL)
    if fields is None:
        raise ValueError(f"no report of this version begins like this: {head[:80]}")
    target, architecture, triton, rest = fields.groups()
    at = re.search(r"launched by run\(\) at (.*?)\. This says", rest)
    kernels = tuple(_kernel(_COLUMNS.split(line.strip())) for line in rows.splitlines()[1:])
    labels = tuple(at[1].split(", ")) if at else ()
    report = CompileReport(target, architecture, triton, kernels, labels)
    report = report if at else replace(report, error=rest, error_kind="compile")
    if compile_text(report) != text:
        raise ValueError("a recorded compile report is not one of this version's")
    return report


def _kernel(cells: Sequence[str]) -> KernelReport:
    named = _KERNEL.fullmatch(cells[0])
    if named is None or len(cells) != 10:
        raise ValueError(f"no row of a compile report: {cells}")
    warps, stages, registers, spill, shared, launches = (int(cells[at].replace(",", "")) for at in (1, 2, 3, 4, 5, 7))
    told = [] if cells[8] == "-" else [item.split(" ", 1) for item in cells[8].split(", ")]
    return KernelReport(
        name=named[1],
        num_warps=warps,
        num_stages=stages,
        registers=registers,
        spill_store_bytes=spill,
        spill_load_bytes=0,
        stack_bytes=0,
        shared_bytes=shared,
        tensor_memory_columns=None if cells[6] == "-" else int(cells[6]),
        instructions={kind: int(amount) for amount, kind in told},
        constexprs=dict(item.split("=", 1) for item in cells[9].split()),
        launches=launches,
        source_line=int(named[2]),
    )


def read_profile(text: str) -> Profile:
    """The profile that profile_text() made `text` of. Raises ValueError for what it did not make."""
    head, rows, stalls, *_ = text.split("\n\n")
    fields = re.fullmatch(r"Profile of one call of run\(\) on (\S+), by (.*?): .*, ([\d,.]+) us in all\.", head)
    if fields is None:
        raise ValueError(f"no profile of this version begins like this: {head[:80]}")
    waits = dict(re.findall(r"^  (\S+): (.*, \d+) %$", stalls, re.MULTILINE))
    kernels = tuple(_profiled(_COLUMNS.split(line.strip()), waits) for line in rows.splitlines()[1:])
    profile = Profile(fields[1], fields[2], kernels, float(fields[3].replace(",", "")))
    if profile_text(profile) != text:
        raise ValueError("a recorded profile is not one of this version's")
    return profile


def _profiled(cells: Sequence[str], waits: dict[str, str]) -> KernelProfile:
    name, share, us, launches, sm, tensor, dram, l2, occupancy, limit = cells
    limiter, _, registers = limit.removesuffix(" registers a thread)").rpartition(" (")
    stall, _, percent = waits[name].rpartition(", ")
    return KernelProfile(
        name=name,
        launches=int(launches),
        duration_us=float(us.replace(",", "")),
        share=float(share.rstrip("%")) / 100,
        grid=(),
        block=(),
        registers=int(registers),
        sm_percent=float(sm),
        tensor_percent=float(tensor),
        dram_percent=float(dram),
        l2_hit_percent=float(l2),
        occupancy_percent=float(occupancy),
        occupancy_limiter=limiter,
        main_stall=stall,
        main_stall_percent=float(percent),
    )


def play(
    trace: Trace, steps: Sequence[Step], protocol: str, model: str, price: PriceRow, limit: int, *, mark: bool
) -> Played:
    """Drive the product's loop over the steps, in a run that is allowed `limit` turns.

    `mark`: each answer ends with its number, so that none was given before.
    """
    wording = Settings(protocol=protocol).resolve("muon", "scripted/benchmark", ()).wording
    texts = [worded(trace, answer, wording) for step in steps for answer in step.answers]
    texts = [f"{text}\n(answer {number})" for number, text in enumerate(texts)] if mark else texts
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
        run_agent(run, config, simulated, Recorded(schemas, texts), lambda event: None)
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
