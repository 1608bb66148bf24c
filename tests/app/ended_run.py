"""A run that is over, with a winner, about the small task y = factor * x: what export and score begin with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from d2k_agent.catalog import find_task
from d2k_agent.config import RunConfig
from d2k_agent.contract import Environment, Verdict, VerdictStatus, source_sha256
from d2k_agent.records import (
    Choice,
    EventLog,
    RunFinished,
    RunFolder,
    RunRecord,
    SelectionMade,
    StopReason,
    Submitted,
    VerdictReached,
    cut,
)
from tests.catalog.tasks_on_disk import FILES, GUIDANCE
from tests.evaluator.scaling import HONEST, task

ENVIRONMENT = Environment("m", "cpu", "c", "b200", "none", "3", "2", "3", "d", "t")


def write_scaling(folder: Path) -> Path:
    """The small task as a folder with a baseline."""
    bundle = task()
    texts = {name: FILES[name] for name in ("task_description.md", "implementation_requirements.yaml", "solution.py")}
    texts |= bundle.public | {f"hidden/{name}": text for name, text in bundle.hidden.items()}
    texts |= {"guidance/guidance.json": json.dumps(GUIDANCE), "guidance/baseline.py": HONEST}
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def ended_run(
    folder: Path,
    *,
    ranked: bool = False,
    over: bool = True,
    winner: bool = True,
    evaluator: str | None = None,
    **configured: Any,
) -> RunFolder:
    """A run in `folder`/run: its candidate was handed in at turn 3 and chosen. Not `over`: it was interrupted then."""
    place = write_scaling(folder / "scaling")
    found = find_task(str(place))
    if evaluator is not None:
        configured = {"gpu": "1", "evaluator": evaluator, **configured}
    config = RunConfig(task=str(place), model="scripted/x", **configured)
    record = RunRecord(
        run_id="run",
        config=config,
        task_slug=found.slug,
        task_digest=found.bundle().digest,
        workloads=tuple(workload.label for workload in found.workloads),
        baseline_sha256=source_sha256(HONEST),
    )
    run = RunFolder.create(folder / "run", record)
    source = HONEST + "# the winner\n"
    sha256 = run.store_candidate(source)
    assert sha256 == source_sha256(source)
    key = {"turn": 3, "call_id": "c", "sha256": sha256}
    verdict = cut(Verdict(VerdictStatus.UNTIMED, sha256, "fine", ENVIRONMENT)).verdict
    choice = Choice(**key, geomean_speedup=1.5 if ranked else None)
    selection, provisional = (choice if ranked else None), (None if ranked else choice)
    if not winner:
        selection = provisional = None
    events = [Submitted(**key), VerdictReached(**key, verdict=verdict)] if winner else []
    if over:
        events += [
            SelectionMade(selection=selection, provisional=provisional, why="because"),
            RunFinished(stop_reason=StopReason.TURN_LIMIT, turns=3, selection=selection, provisional=provisional),
        ]
    log = EventLog(run.events)
    log.append(*events)
    log.close()
    return run
