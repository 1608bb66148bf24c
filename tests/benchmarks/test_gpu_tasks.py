"""What `make gpu-tasks` keeps of verdicts that were measured before; measuring itself needs a GPU."""

from __future__ import annotations

import copy
import dataclasses
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import storing, tasks
from benchmarks.gpu.results import ResultsFile
from d2k_agent.catalog import Task, find_task, source_latencies
from d2k_agent.contract import Measurement, TaskBundle, Verdict, VerdictStatus, WorkloadResult
from d2k_agent.contract.wire import to_data
from tests.agent.scene import HERE

ROOT = Path(__file__).parents[2]
MUON, DISPATCH = find_task("muon"), find_task("ep_dispatch_fp8")
SOURCES = {"reference": 8.0, "baseline": 6.0, "expert": 2.0}


def verdicts(task: Task, ranks: int = 0) -> dict[str, dict[str, Any]]:
    """Verdicts on the three sources by one evaluator, each rank on a GPU of its own."""
    details = {"ranks": ranks, "gpus": [f"GPU-{rank}" for rank in range(ranks)]} if ranks else {"uuid": "GPU-0"}
    where = dataclasses.replace(HERE, device="cuda", device_name="NVIDIA H200", details=details, driver="580")

    def clock(ms: float) -> Measurement:
        return Measurement(ms, 100, 2, ms, "events_batch", link_bytes=(3e6,) * ranks if ranks else None)

    found = {}
    for name, ms in SOURCES.items():
        results = tuple(
            WorkloadResult(
                item.label,
                VerdictStatus.PASSED,
                mean_ms=ms,
                speedup=6.0 / ms,
                measurement=clock(ms),
                baseline=clock(6.0),
            )
            for item in task.workloads
        )
        verdict = Verdict(VerdictStatus.PASSED, name[0] * 64, "", where, workloads=results, geomean_speedup=6.0 / ms)
        found[name] = {**to_data(verdict), "session": "2026-11-30T10:00:00Z 1"}
    return found


def moved(task: Task, folder: Path) -> Task:
    """The task with its counts and gates in `folder`, and no latencies."""
    (folder / "hidden").mkdir()
    for name in ("config.json", "hidden/check.py"):
        (folder / name).write_bytes((task.folder / name).read_bytes())
    return dataclasses.replace(task, folder=folder)


def test_latencies_are_stored_with_the_policy_of_each(tmp_path: Path) -> None:
    task = moved(MUON, tmp_path)
    assert storing.store(task, verdicts(MUON)) == ""
    stored = json.loads((tmp_path / "hidden" / "baselines.json").read_text())
    label = MUON.workloads[0].label
    assert source_latencies(tmp_path)[label].speedup == 3.0
    assert stored["workloads"][label]["policies"] == dict.fromkeys(SOURCES, "events_batch")
    assert stored["provenance"]["policy"] == "events_batch" and "ranks" not in stored["provenance"]


def test_how_many_sessions_it_took_is_stored(tmp_path: Path) -> None:
    task = moved(MUON, tmp_path)
    for session, told in (("2026-11-30T10:00:00Z 1", "one session;"), ("2026-11-30T11:00:00Z 2", "2 sessions that")):
        assert storing.store(task, changed(verdicts(MUON), "reference", session=session)) == ""
        stored = json.loads((tmp_path / "hidden" / "baselines.json").read_text())
        assert f"one machine, {told}" in stored["provenance"]["method"]


def test_four_ranks_are_stored_beside_two_with_what_crossed_the_links(tmp_path: Path) -> None:
    task, label = moved(DISPATCH, tmp_path), DISPATCH.workloads[0].label
    for ranks in (4, 2, 4):
        assert storing.store(task, verdicts(DISPATCH, ranks)) == ""
        assert source_latencies(tmp_path, 4)[label].expert_ms == 2.0
    stored = json.loads((tmp_path / "hidden" / "baselines.json").read_text())
    two, four = stored["workloads"][label]["link_bytes"], stored["other_ranks"]["4"]["workloads"][label]["link_bytes"]
    assert two["expert"] == [3e6] * 2 and four["expert"] == [3e6] * 4
    assert 0 < two["compulsory"] < four["compulsory"]
    assert (stored["provenance"]["ranks"], stored["other_ranks"]["4"]["provenance"]["ranks"]) == (2, 4)
    assert label in source_latencies(tmp_path)


def changed(found: dict[str, dict[str, Any]], source: str, **changes: Any) -> dict[str, dict[str, Any]]:
    """The verdicts with other numbers in the first workload of one, `on_baseline` for those of its baseline."""
    found = copy.deepcopy(found)
    clock = found[source]["workloads"][0]["baseline" if changes.pop("on_baseline", False) else "measurement"]
    found[source]["session"] = changes.pop("session", found[source]["session"])
    found[source]["environment"]["details"].update(changes.pop("details", {}))
    clock.update(changes)
    return found


@pytest.mark.parametrize(
    ("source", "changes", "told"),
    [
        ("expert", {"policy": "graph_rotating"}, "timed by graph_rotating and the baseline by events_batch"),
        ("expert", {"link_bytes": None}, "nobody counted what crossed the links"),
        ("baseline", {"link_bytes": None}, "nobody counted what crossed the links"),
        ("expert", {"details": {"l2_bytes": 1}}, "details is not the same for all sources"),
        ("reference", {"session": "later 2"}, ""),
        ("reference", {"session": "later 2", "on_baseline": True, "mean_ms": 6.1}, ""),
        ("reference", {"session": "later 2", "on_baseline": True, "mean_ms": 6.2}, "the baseline took 3.3% longer on"),
    ],
)
def test_what_is_not_to_be_compared_is_not_stored(source: str, changes: dict[str, Any], told: str) -> None:
    found = storing.unstorable(changed(verdicts(DISPATCH, 2), source, **changes))
    assert told in found and bool(told) == bool(found)


def test_ranks_that_share_a_gpu_are_not_stored() -> None:
    found = verdicts(DISPATCH, 2)
    for verdict in found.values():
        verdict["environment"]["details"]["gpus"] = ["GPU-0", "GPU-0"]
    assert "ranks shared a GPU" in storing.unstorable(found)


def test_the_spread_of_a_ranked_task_is_measured_on_as_many_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    assert tasks.spread_job(DISPATCH, "first", 4).ranks == 4
    with pytest.raises(SystemExit):
        tasks.main(["ep_dispatch_fp8", "--only-spread", "short"])
    assert "--only-spread takes first of this task" in capsys.readouterr().err


def test_the_tables_name_policy_headroom_and_links() -> None:
    text = "\n".join(tasks.latency_lines(DISPATCH, verdicts(DISPATCH, 2)))
    assert "events_batch" in text and "headroom" in text and "compulsory MB" in text
    some = dict(list(verdicts(MUON).items())[:1])
    assert "reference" in "\n".join(tasks.latency_lines(MUON, some)), "what there is after an early end"


def test_a_line_that_was_not_finished_is_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    ResultsFile(path).add("one", verdict={})
    with path.open("a") as file:
        file.write('{"key": "two", "verd')
    again = ResultsFile(path)
    assert again.get("one") is not None and again.get("two") is None
    again.add("two", verdict={})
    assert [item["key"] for item in ResultsFile(path).every()] == ["one", "two"]


ENDLESS = """
import time
from benchmarks.gpu.results import end_when_terminated

end_when_terminated()
try:
    print("judging", flush=True)
    time.sleep(60)
finally:
    print("closing", flush=True)
    time.sleep(0.5)
    print("closed", flush=True)
"""


def test_a_terminated_benchmark_closes_its_evaluator_and_says_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    running = subprocess.Popen(
        [sys.executable, "-c", ENDLESS], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert running.stdout is not None and running.stdout.readline() == b"judging\n"
    running.send_signal(signal.SIGTERM)
    assert running.stdout.readline() == b"closing\n"
    running.send_signal(signal.SIGTERM)
    running.send_signal(signal.SIGINT)
    assert running.communicate(timeout=30)[0] == b"closed\n"
    assert tasks.ended_early(MUON, {}, Path("results.jsonl")) == 130
    assert "results.jsonl: the same command goes on from there" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("timing", "status", "told"),
    [
        ({}, VerdictStatus.NOISY, True),
        ({}, VerdictStatus.INCORRECT, False),
        ({"mode": "graph"}, VerdictStatus.NOISY, False),
        ({"mode": "graph", "workloads": {"large": "batch"}}, VerdictStatus.NOISY, True),
        ({"mode": "batch", "workloads": {"large": "graph"}}, VerdictStatus.NOISY, False),
    ],
)
def test_graphs_are_named_where_batches_do_not_settle(
    timing: dict[str, Any], status: VerdictStatus, told: bool
) -> None:
    bundle = TaskBundle("mine", {}, {"workloads.json": json.dumps({"timing": timing} if timing else {})})
    verdict = Verdict(status, "a" * 64, "", HERE, workloads=(WorkloadResult("large", status),))
    assert ['{"mode": "graph"}' in line for line in tasks.cures(bundle, verdict)] == [True] * told
