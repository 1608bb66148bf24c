"""hidden/baselines.json of a task: what is written there of three verdicts, and why some are not to be stored.

A task for several ranks has the latencies of its usual number at the top, as others have theirs, and those of other
numbers below `other_ranks`, each with the bytes that every rank sent in a call and those that have to cross.
"""

from __future__ import annotations

import json
import runpy
from collections.abc import Mapping
from typing import Any

from d2k_agent.app.proving import shortcoming
from d2k_agent.catalog import OTHER_RANKS, Task
from d2k_agent.contract import MOST_DRIFT, Verdict
from d2k_agent.contract.wire import from_data

SOURCES = ("reference", "baseline", "expert")
Verdicts = Mapping[str, Mapping[str, Any]]
"""Verdicts as data, each with its `session`, by source: all of SOURCES."""


def registered(verdict: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The measured workloads of a verdict."""
    return [result for result in verdict["workloads"] if result["measurement"] is not None]


def compulsory_bytes(task: Task, ranks: int) -> dict[str, float]:
    """By workload, the bytes that each rank has to send in a call."""
    required = runpy.run_path(str(task.folder / "hidden" / "check.py"))["link_bytes"]
    return {item.label: float(required({**item.params, "ranks": ranks})) for item in task.workloads}


def unstorable(verdicts: Verdicts) -> str:
    """Why these verdicts do not stand for the task; empty where they do."""
    if told := _apart_in_time(verdicts):
        return told
    expert = {name: value for name, value in verdicts["expert"].items() if name != "session"}
    if told := shortcoming(from_data(Verdict, expert)):
        return told
    details = expert["environment"]["details"]
    if len(set(details.get("gpus", []))) < details.get("ranks", 1) > 1:
        return "ranks shared a GPU, so that nothing crossed a link: use a machine with a GPU for each"
    for own, base in zip(registered(expert), registered(verdicts["baseline"]), strict=True):
        label, mine, theirs = own["label"], own["measurement"], base["measurement"]
        if mine["policy"] != theirs["policy"]:
            return f"{label}: the expert was timed by {mine['policy']} and the baseline by {theirs['policy']}"
        if "ranks" in details and (mine["link_bytes"] is None or theirs["link_bytes"] is None):
            return f"{label}: nobody counted what crossed the links: use a machine whose driver counts them"
    return ""


def _apart_in_time(verdicts: Verdicts) -> str:
    """Why verdicts of several evaluators are not one session; empty where they are.

    What was measured after a break stands beside the rest where machine and versions are the same and the baseline,
    which every evaluator measures besides, took as long as before, drift allowed.
    """
    first = verdicts["reference"]
    names = ("machine", "device_name", "driver", "torch", "triton", "python", "evaluator_digest", "details")
    for name in names:
        if any(verdict["environment"][name] != first["environment"][name] for verdict in verdicts.values()):
            return f"{name} is not the same for all sources; give a new file for --json and measure anew"
    if len({verdict["session"] for verdict in verdicts.values()}) == 1:
        return ""
    for results in zip(*(registered(verdict) for verdict in verdicts.values()), strict=True):
        times: dict[str, list[float]] = {}
        for clock in (result["baseline"] for result in results if result["baseline"] is not None):
            times.setdefault(clock["policy"], []).append(clock["mean_ms"])
        drift = max((max(values) / min(values) - 1 for values in times.values()), default=1.0)
        if drift > MOST_DRIFT:
            return (
                f"the baseline took {drift:.1%} longer on {results[0]['label']} in one session than in another; "
                "give a new file for --json and measure anew"
            )
    return ""


def latencies_data(verdicts: Verdicts, compulsory: Mapping[str, float] | None = None) -> dict[str, Any]:
    """Milliseconds by workload and source, the policy of each, and where they come from.

    `compulsory` is by workload what each of several ranks has to send in a call; what it sent stands beside it.
    """
    environment = verdicts["expert"]["environment"]
    clocks: dict[str, dict[str, Any]] = {}
    for name in SOURCES:
        for result in registered(verdicts[name]):
            clocks.setdefault(result["label"], {})[name] = result["measurement"]
    workloads: dict[str, dict[str, Any]] = {}
    for label, by_source in clocks.items():
        workloads[label] = {f"{name}_ms": float(f"{clock['mean_ms']:.6g}") for name, clock in by_source.items()}
        workloads[label]["policies"] = {name: clock["policy"] for name, clock in by_source.items()}
        if compulsory is not None:
            sent = {name: clock["link_bytes"] for name, clock in by_source.items()}
            workloads[label]["link_bytes"] = {"compulsory": compulsory[label], **sent}
    policies = (clock["policy"] for by_source in clocks.values() for clock in by_source.values())
    provenance = {
        "device": environment["device_name"],
        **({} if compulsory is None else {"ranks": environment["details"]["ranks"]}),
        **{name: environment[name] for name in ("driver", "torch", "triton", "python")},
        "policy": ", ".join(dict.fromkeys(policies)),
        "date": verdicts["expert"]["session"][:10],
        "task_digest": environment["task_digest"],
        "evaluator_digest": environment["evaluator_digest"],
        "sha256": {name: verdicts[name]["candidate_sha256"] for name in SOURCES},
        "method": f"benchmarks/gpu/tasks.py: one machine, {_sessions(verdicts)}; the expert A B B A with the baseline",
    }
    return {"workloads": workloads, "provenance": provenance}


def _sessions(verdicts: Verdicts) -> str:
    """In how many runs of the benchmark the verdicts were reached."""
    number = len({verdict["session"] for verdict in verdicts.values()})
    return "one session" if number == 1 else f"{number} sessions that the baseline joins"


def store(task: Task, verdicts: Verdicts) -> str:
    """Write hidden/baselines.json, or say why not; other numbers of ranks than those measured stay as they are."""
    if told := unstorable(verdicts):
        return told
    path, usual = task.folder / "hidden" / "baselines.json", task.ranks[:1]
    stored = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if usual:
        ranks = verdicts["expert"]["environment"]["details"]["ranks"]
        found = latencies_data(verdicts, compulsory_bytes(task, ranks))
        others = stored.get(OTHER_RANKS, {})
        if ranks == usual[0]:
            stored = {**found, **({OTHER_RANKS: others} if others else {})}
        else:
            stored[OTHER_RANKS] = {**others, str(ranks): found}
    else:
        stored = latencies_data(verdicts)
    path.write_text(json.dumps(stored, indent=2) + "\n", encoding="utf-8")
    return ""
