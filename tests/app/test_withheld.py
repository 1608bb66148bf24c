"""What an agent reads does not move with what it is not given: the best known algorithm's counts, withheld guidance."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from d2k_agent.app.evaluation import Evaluation
from d2k_agent.app.host_tools import host_tools
from d2k_agent.app.incumbent import Incumbent
from d2k_agent.catalog import IMPOSSIBLE, LEVELS, counts_of, find_task, list_tasks, staged_files
from d2k_agent.catalog.levels import LEVEL_KEYS, RATIONALE, RATIONALE_NEEDS
from d2k_agent.config import WORDINGS
from d2k_agent.contract import EvaluatorJob, Verdict, source_sha256
from d2k_agent.launchers import FakeLauncher
from d2k_agent.records import ConversationStarted, read_trace
from tests.agent.scene import new_run
from tests.cli.runs import script
from tests.cli.shell import d2k
from tests.reports.measured import timed, workload

GIVEN = [LEVELS[:count] for count in range(len(LEVELS) + 1)]
SHIPPED = [task.slug for task in list_tasks()]


def copied(slug: str, folder: Path) -> Path:
    """The task with its guidance as a folder of one's own."""
    task = find_task(slug)
    assert task.guidance is not None
    shutil.copytree(task.folder, folder / slug)
    shutil.copytree(task.guidance, folder / slug / "guidance")
    return folder / slug


def altered(slug: str, folder: Path, given: Collection[str]) -> Path:
    """The same, with other counts of the best algorithm, other sources and latencies, and other withheld guidance."""
    changed = copied(slug, folder)
    sol = changed / "hidden" / "sol.py"
    sol.write_text(sol.read_text() + OTHER_COUNTS)
    for name in ("expert.py", "baseline.py"):
        path = changed / "guidance" / name
        path.write_text(path.read_text().replace("def ", "def other_"))
    latencies = changed / "hidden" / "baselines.json"
    if latencies.exists():
        latencies.write_text(latencies.read_text().replace('_ms": ', '_ms": 1'))
    path = changed / "guidance" / "guidance.json"
    guidance = json.loads(path.read_text())
    path.write_text(json.dumps(with_other_texts(guidance, frozenset(LEVELS) - frozenset(given))))
    return changed


OTHER_COUNTS = """

def best_flops(workload):
    return {kind: reference_flops(workload)[kind] / 3 for kind in reference_flops(workload)}


def best_bytes(workload):
    return reference_bytes(workload) / 3
"""


def with_other_texts(guidance: dict[str, Any], withheld: frozenset[str]) -> dict[str, Any]:
    """Guidance in which each text of a withheld level is another one, and so is each name that others use."""
    names = set()
    if "L1" in withheld:
        names |= {insight["name"] for insight in guidance["level_1_high_level_algorithmic_insights"]}
    if "L2" in withheld:
        names |= {stage["stage_id"] for stage in guidance["level_2_dataflow_design"]["stages"]}
    needs = {**{key: frozenset({level}) for key, level in LEVEL_KEYS.items()}, **RATIONALE_NEEDS}

    def other(value: Any, hidden: bool) -> Any:
        if isinstance(value, dict):
            return {
                key: other(item, hidden or bool(needs.get(key, frozenset()) & withheld)) for key, item in value.items()
            }
        if isinstance(value, list):
            return [other(item, hidden) for item in value]
        return f"other_{value}" if isinstance(value, str) and (hidden or value in names) else value

    changed: dict[str, Any] = other(guidance, False)
    return changed


@pytest.mark.parametrize("given", GIVEN, ids=lambda given: "".join(given) or "none")
@pytest.mark.parametrize("slug", SHIPPED)
def test_staged_files_are_byte_for_byte_the_same(slug: str, given: tuple[str, ...], tmp_path: Path) -> None:
    one, other = find_task(copied(slug, tmp_path / "one")), find_task(altered(slug, tmp_path / "other", given))
    assert counts_of(one) != counts_of(other)
    if len(given) < len(LEVELS):
        assert one.guidance_data() != other.guidance_data()
    assert staged_files(one, given) == staged_files(other, given)


def test_withheld_guidance_is_in_what_staging_reads() -> None:
    """The test above can fail: what is given does move with its source."""
    guidance = find_task("muon").guidance_data()
    insight = with_other_texts(guidance, frozenset({"L1"}))["level_1_high_level_algorithmic_insights"][0]
    assert insight["name"].startswith("other_")
    assert with_other_texts(guidance, frozenset())[RATIONALE] == guidance[RATIONALE]


def told(folder: Path, task: Path) -> tuple[ConversationStarted, dict[str, bytes]]:
    """What a run of the task with L1 begins with: the messages with the tools, and the workspace."""
    model = script(folder, *({"content": "nothing to do", "tool_calls": []} for _ in range(3)))
    options = ("--levels", "L1", "--model", model, "--run-dir", "run", "--device", "cpu")
    answer = d2k("solve", str(task), *options, folder=folder)
    assert answer.status == 0, answer
    (started,) = [event for event in read_trace(folder / "run").events if isinstance(event, ConversationStarted)]
    workspace = folder / "run" / "workspace"
    files = (path for path in workspace.rglob("*") if path.is_file())
    return started, {path.relative_to(workspace).as_posix(): path.read_bytes() for path in files}


def test_the_prompt_and_the_workspace_of_a_run_are_byte_for_byte_the_same(tmp_path: Path) -> None:
    (one, files), (other, other_files) = (
        told(place.parent, place)
        for place in (copied("muon", tmp_path / "one"), altered("muon", tmp_path / "other", ("L1",)))
    )
    assert files == other_files and "guidance.json" in files
    assert one.messages == other.messages and one.tools == other.tools


SOURCE = "def run(): ...\n"


def answered(place: Path, first_ms: float, wording: str) -> str:
    """What `submit` answers in a run of the task at `place`: its first workload took `first_ms`, others 500."""
    task = find_task(place)
    took_ms = [first_ms, *[500.0] * (len(task.workloads) - 1)]
    results = tuple(workload(item.label, ms, 2 * ms) for item, ms in zip(task.workloads, took_ms, strict=True))

    def verdict(job: EvaluatorJob) -> Verdict:
        return replace(timed(), candidate_sha256=source_sha256(SOURCE), workloads=results)

    run = new_run(place.parent / f"run-{wording}", workloads=[item.label for item in task.workloads])
    run.events.touch()
    (run.workspace / "solution.py").write_text(SOURCE)
    incumbent = Incumbent(run, run.read_record().config, run.read_record().workloads)
    evaluation = Evaluation(FakeLauncher(verdict), task, target="h200", device="cuda", unsafe=False)
    return str(host_tools(evaluation, task, run.workspace, incumbent, wording)["submit"]({"path": "solution.py"}).text)


@pytest.mark.parametrize("slug", SHIPPED)
def test_what_submit_answers_is_the_same(slug: str, tmp_path: Path) -> None:
    """No floor, no headroom and no score of the speed of light is in it: a design may do less than the reference."""
    places = copied(slug, tmp_path / "one"), altered(slug, tmp_path / "other", ("L1",))
    for wording in WORDINGS:
        one, other = (answered(place, 500.0, wording) for place in places)
        assert one == other and "500" in one and "floor" not in one


def test_only_that_a_latency_is_impossible_is_told_and_not_under_which_limit(tmp_path: Path) -> None:
    """6.5 ms are below the first floor of Muon's counts on an H200 and above that of the altered ones."""
    places = copied("muon", tmp_path / "one"), altered("muon", tmp_path / "other", ("L1",))
    for wording in WORDINGS:
        one, other = (answered(place, 6.5, wording) for place in places)
        assert IMPOSSIBLE in one and IMPOSSIBLE not in other and "floor" not in one
        differing = set(one.splitlines()) ^ set(other.splitlines())
        assert all(IMPOSSIBLE in line for line in differing), differing
