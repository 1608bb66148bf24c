"""A modelled latency in words: never without the word, and never beside a measured one in one column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from d2k_agent.contract import JobKind, Verdict
from d2k_agent.contract.modelled import ModelledLatency, ModelledLaunch, ModelledWorkload
from d2k_agent.contract.wire import to_data
from d2k_agent.contract.wording import counted
from d2k_agent.reports.tables import NOT_READ, milliseconds, number, table
from d2k_agent.reports.verdict_text import answer_text

HEADER = ("launch", "times", "grid", "sampled", "modelled each", "bound", "Tflop", "GB moved", "GB once", "spread")
NOT_LOOKED_AT = "Whether it compiles, fits and is right was not looked at: `inspect` and `evaluate` do."
LEGEND = (
    "sampled: programs that were interpreted. GB moved: traffic of the L2 cache, each access by itself.",
    "GB once: device memory where each touched byte passes once. bound: what the model says takes the time.",
    "spread: how much the work of the sampled programs differs (coefficient of variation).",
)
RIGHT = ("times", "sampled", "modelled each", "Tflop", "GB moved", "GB once", "spread")


def modelled_text(modelled: ModelledLatency, floors_ms: Mapping[str, float]) -> str:
    """A line and a table a workload, then what the numbers are and rest on; where no launch is modelled, why.

    `floors_ms` are floors of the best known algorithm by workload: what is modelled below one is told.
    """
    lines = _headline(modelled)
    if not any(workload.launches for workload in modelled.workloads):
        return "\n".join([*lines, *_reasons(modelled)])
    for workload in modelled.workloads:
        lines += ["", *_workload(workload, floors_ms.get(workload.label))]
    if all(launch.ms is None for workload in modelled.workloads for launch in workload.launches):
        return "\n".join(lines)
    lines += ["", *LEGEND]
    if modelled.basis:
        lines += ["", "What the model rests on:", *(f"  {sentence}" for sentence in modelled.basis)]
    return "\n".join(lines)


def _headline(modelled: ModelledLatency) -> list[str]:
    if all(workload.ms is None for workload in modelled.workloads):
        return [f"Not modelled for {modelled.target}, and nothing was measured"]
    mean = modelled.geomean_ms
    every = f"; geometric mean {milliseconds(mean)}" if mean is not None and len(modelled.workloads) > 1 else ""
    return [f"Modelled for {modelled.target}, nothing was measured{every}", NOT_LOOKED_AT]


def _reasons(modelled: ModelledLatency) -> list[str]:
    """Why there is none, each reason once."""
    reasons: dict[str | None, list[str]] = {}
    for workload in modelled.workloads:
        reasons.setdefault(workload.why_not, []).append(workload.label)
    return [f"{', '.join(labels)}: {why}" for why, labels in reasons.items()]


def modelled_answer(verdict: Verdict, floors_ms: Mapping[str, float]) -> str:
    """What the command prints: the modelled latency, else what the candidate failed at, or why there is no model."""
    if verdict.modelled is not None:
        return modelled_text(verdict.modelled, floors_ms)
    if not verdict.status.acceptable:
        return answer_text(JobKind.MODEL, verdict)
    return "\n".join(["Not modelled, and nothing was measured", *(f"note: {note}" for note in verdict.notes)])


def modelled_data(verdict: Verdict, floors_ms: Mapping[str, float]) -> dict[str, Any]:
    """The answer of the command as one JSON object; `modelled` is null where the candidate failed before it."""
    modelled = verdict.modelled
    return {
        "candidate_sha256": verdict.candidate_sha256,
        "status": verdict.status.value,
        "message": verdict.message,
        "notes": list(verdict.notes),
        "modelled_geomean_ms": None if modelled is None else modelled.geomean_ms,
        "modelled": None if modelled is None else to_data(modelled),
        "floors_ms": dict(floors_ms),
    }


def modelled_mean(geomean_ms: float) -> str:
    """A candidate's modelled latency in a few words, for a screen that speaks of other things as well."""
    return f"modelled {milliseconds(geomean_ms)} (geometric mean), not measured"


def modelled_line(modelled: ModelledLatency) -> str:
    """The same with its target, or why there is none."""
    if modelled.geomean_ms is not None:
        return f"{modelled_mean(modelled.geomean_ms)}, for {modelled.target}"
    without = [workload for workload in modelled.workloads if workload.why_not is not None]
    why = f"{without[0].label}: {without[0].why_not}" if without else "no workload was asked for"
    return f"not modelled for {modelled.target} ({why})"


def _workload(workload: ModelledWorkload, floor_ms: float | None) -> list[str]:
    total = f"modelled {milliseconds(workload.ms)} a call" if workload.ms is not None else "not modelled"
    why = "" if workload.why_not is None else f": {workload.why_not}"
    lines = [f"{workload.label}: {total}{why}"]
    if workload.ms is not None and floor_ms is not None and workload.ms < floor_ms:
        lines.append(
            f"warning: that is below the floor of {milliseconds(floor_ms)}: it does less than the best known algorithm "
            "must, or the model misses a part of it"
        )
    if workload.launches:
        lines.append(table(HEADER, [_row(launch) for launch in workload.launches], RIGHT))
    notes = {f"{launch.kernel}: {note}": None for launch in workload.launches for note in launch.notes}
    return lines + [f"note: {note}" for note in notes]


def _row(launch: ModelledLaunch) -> tuple[str, ...]:
    shape = " x ".join(map(str, launch.grid))
    if launch.ms is None:
        return (launch.kernel, str(launch.times), shape, "0", "not modelled", *[NOT_READ] * 5)
    products = launch.product_flops or {}
    flops = sum(products.values())
    return (
        launch.kernel,
        str(launch.times),
        shape,
        f"{launch.sampled} of {counted(launch.programs, 'program')}",
        milliseconds(launch.ms),
        launch.bound or NOT_READ,
        f"{number(flops / 1e12)} {', '.join(products)}" if flops else NOT_READ,
        _gigabytes(launch.moved_bytes),
        _gigabytes(launch.compulsory_bytes),
        NOT_READ if launch.spread is None else f"{100 * launch.spread:.1f} %",
    )


def _gigabytes(count: float | None) -> str:
    return number(None if count is None else count / 1e9)
