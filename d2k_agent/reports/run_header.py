"""What a run is, in a few aligned lines above its events: what was asked for, and where it was judged.

What is not recorded is left out. Covers no outcome (outcome.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from d2k_agent.reports.measured_text import DIGEST_CHARS
from d2k_agent.reports.tables import count, table

if TYPE_CHECKING:
    from d2k_agent.contract import Environment
    from d2k_agent.records import RunRecord, Trace

_OF_VERDICTS: dict[str, Callable[[Environment], str | None]] = {
    "evaluator's machine": lambda environment: environment.machine,
    "GPU": lambda environment: None if environment.device == "cpu" else environment.device_name,
    "driver": lambda environment: environment.driver,
    "candidates ran on": lambda environment: environment.device_name if environment.device == "cpu" else None,
    "torch": lambda environment: environment.torch,
    "triton": lambda environment: environment.triton,
    "target": lambda environment: environment.target,
    "evaluator": lambda environment: f"digest {environment.evaluator_digest[:DIGEST_CHARS]}",
}
"""What the verdicts say about where they come from."""


def run_header(trace: Trace) -> str:
    """The lines, a name and its value each; verdicts that disagree are told with every value, in their order."""
    first, *rest = run_rows(trace)
    return table(first, rest)


def run_rows(trace: Trace) -> list[tuple[str, str]]:
    """The same as names and values."""
    return [*_asked(trace.run), *_judged(_environments(trace)), *_confined(trace.run)]


def _asked(record: RunRecord) -> Iterator[tuple[str, str]]:
    config = record.config
    yield "task", record.task_slug
    yield "levels", ", ".join(config.levels) or "none"
    yield "model", _model(config.model)
    yield "turns allowed", count(config.turns)
    if config.stop_policy is not None:
        yield "stopping policy", config.stop_policy
    if record.origin is not None:
        yield "origin", record.origin
    yield "began", f"{record.created.astimezone():%Y-%m-%d %H:%M:%S %Z}"


def _model(name: str) -> str:
    kind, _, rest = name.partition("/")
    match kind:
        case "scripted":
            return f"hand-written script {rest}, no model wrote it"
        case "replay":
            return f"recorded replies of {rest}, no model was asked"
        case _:
            return name


def _judged(environments: Iterable[Environment]) -> Iterator[tuple[str, str]]:
    found = tuple(environments)
    for name, value_of in _OF_VERDICTS.items():
        values = [value for value in map(value_of, found) if value]
        if values:
            yield name, ", then ".join(dict.fromkeys(values))


def _environments(trace: Trace) -> Iterator[Environment]:
    for event in trace.events:
        if event.type == "verdict_reached" or event.type == "confirmation_reached":
            yield event.verdict.environment


def _confined(record: RunRecord) -> Iterator[tuple[str, str]]:
    kind = record.isolation.get("kind")
    if kind is not None:
        yield "isolation", str(kind)
