"""An earlier verdict beside one of now: does it hold, in one sentence, and then what differs and what was measured."""

from __future__ import annotations

import dataclasses
from typing import Any

from d2k_agent.reports.measured_text import DIGEST_CHARS
from d2k_agent.reports.tables import UNKNOWN, milliseconds, number, table
from d2k_agent.reports.verdict_data import verdict_data
from d2k_agent.reports.verdict_text import verdict_text
from d2k_agent.reports.verified import DIGESTS, Comparison, Difference, Latencies

HEADER = ("workload", "before", "now", "now / before", "within", "speedup before", "now")
MOST_CHARS = 60
"""Of what stood before and stands now, in a table; --json has it whole."""


def verified_data(comparison: Comparison) -> dict[str, Any]:
    """The comparison as one JSON object.

    Scripts may rely on `verified`, `latencies_compared` (null where neither verdict has any), `differences` (each
    `what`, `before`, `now`, `decides`), `latencies` (each `workload`, `before_ms`, `now_ms`, `ratio`, `within`) and
    `verdict`, the one of now.
    """
    return {
        "verified": comparison.verified,
        "latencies_compared": comparison.comparable if comparison.latencies else None,
        "differences": [dataclasses.asdict(difference) for difference in comparison.differences],
        "latencies": [{**dataclasses.asdict(item), "ratio": item.ratio} for item in comparison.latencies],
        "verdict": verdict_data(comparison.now),
    }


def verified_text(comparison: Comparison, name: str) -> str:
    """The sentence, the differences, the latencies side by side; where it does not hold, also the verdict of now.

    `name` is the earlier verdict's file.
    """
    now = comparison.now
    parts = [f"{_sentence(comparison, name)}\n{_subject(comparison)}"]
    if comparison.differences:
        rows = [
            (item.what, _cut(item, item.before), _cut(item, item.now), "yes" if item.decides else "no")
            for item in comparison.differences
        ]
        parts.append(table(("differs", "before", "now", "speaks against it"), rows))
    if comparison.latencies:
        header = HEADER
        parts.append(table(header, [_row(item) for item in comparison.latencies], header[1:]))
    if not comparison.verified:
        parts.append(f"The verdict now\n{verdict_text(dataclasses.replace(now, compile_report=None))}")
    return "\n\n".join(parts)


def _sentence(comparison: Comparison, name: str) -> str:
    if not comparison.verified:
        deciding = [difference.what for difference in comparison.differences if difference.decides]
        return f"{name} does not hold: judged again under a fresh seed, it differs in {', '.join(deciding)}."
    more = any(difference.what.startswith("checks on ") for difference in comparison.differences)
    checks = "the checks that it lists" if more else "checks"
    return (
        f"{name} holds: judged again under a fresh seed, status ({comparison.now.status}) and {checks} are the same; "
        f"{_of_latencies(comparison)}."
    )


def _of_latencies(comparison: Comparison) -> str:
    if not comparison.latencies:
        return "neither verdict has a latency"
    if not comparison.comparable:
        return f"latencies were not compared, since other things differ ({_circumstances(comparison)})"
    tolerances = {f"{100 * item.tolerance:g} %" for item in comparison.latencies if item.tolerance is not None}
    claimed = any(item.before_speedup is not None for item in comparison.latencies)
    return f"latencies{' and speedups' * claimed} are within {', '.join(sorted(tolerances))}"


def _circumstances(comparison: Comparison) -> str:
    return ", ".join(difference.what for difference in comparison.differences if not difference.decides)


def _subject(comparison: Comparison) -> str:
    before, now = comparison.before, comparison.now
    seeds = " and ".join(item.seed_commitment[:DIGEST_CHARS] or UNKNOWN for item in (before, now))
    return f"source {now.candidate_sha256[:DIGEST_CHARS]}; commitments of the two seeds {seeds}"


def _row(item: Latencies) -> tuple[str, ...]:
    within = UNKNOWN if item.tolerance is None else f"{100 * item.tolerance:g} %"
    said = {None: "not compared", True: f"{within}: yes", False: f"{within}: no"}[item.within]
    return (
        item.workload,
        milliseconds(item.before_ms),
        milliseconds(item.now_ms),
        number(item.ratio, 4),
        said,
        number(item.before_speedup),
        number(item.now_speedup),
    )


def _cut(difference: Difference, text: str) -> str:
    if difference.what in DIGESTS:
        return text[:DIGEST_CHARS]
    return text if len(text) <= MOST_CHARS else f"{text[: MOST_CHARS - 4]} ..."
