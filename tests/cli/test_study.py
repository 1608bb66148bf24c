"""d2k-agent study stop, and solve --stop-policy: tables, means over runs of one kind, each refusal in a sentence."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from d2k_agent.catalog import samples_dir
from d2k_agent.cli.entry import main
from d2k_agent.contract.ceilings import Ceiling, Ceilings, Provenance
from d2k_agent.contract.wire import to_data
from d2k_agent.records import PolicyStopped, RunFolder, StopReason, Trace
from d2k_agent.reports.progress import ProgressLines
from d2k_agent.reports.run_header import run_rows
from d2k_agent.reports.trace_text import event_text
from d2k_agent.study import DEFAULT_POLICIES
from tests.cli.runs import call, recorded, script
from tests.cli.shell import Answer, assert_refused, d2k
from tests.reports.curved import a_curved_run, a_turn, ending, on_a_cpu, record, turns_of

SAMPLE = str(samples_dir() / "muon")
ONE = Ceiling(1.0, Provenance("measured", "a test"))
SLOW = Ceilings("NVIDIA H200", copy_gb_s=ONE, fp16_tflops=ONE, bf16_tflops=ONE, fp8_tflops=ONE)
"""A GPU on which every latency of the sample is below the floor."""
PLATEAU = ("--policy", "plateau:turns=2,percent=1")
Study = Callable[..., Answer]


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Study:
    """Runs `study stop` in a folder of its own, in this process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    def run(*arguments: str) -> Answer:
        status = main(["study", "stop", *arguments])
        captured = capsys.readouterr()
        return Answer(status, captured.out, captured.err)

    return run


def cells(answer: Answer) -> list[list[str]]:
    return [line.split() for line in answer.out.splitlines()]


def test_the_sample_run_is_replayed_without_a_key_or_a_gpu(study: Study, tmp_path: Path) -> None:
    answer = study(SAMPLE, "--policy", "plateau:turns=3,percent=1", "--policy", "headroom:factor=1.5")
    assert answer.status == 0 and answer.err == ""
    assert "plateau:turns=3,percent=1 muon 9 of 12 unknown unknown 39.5 % 40.4 %".split() in cells(answer)
    assert "headroom:factor=1.5 muon its end (12) 0.0 % 0.0 % 0.0 % 100.0 %".split() in cells(answer)
    assert "stops after turn 12, its last (muon): the candidate of turn 12 takes" in answer.out
    assert "stops after turn 9 (muon): the last 3 turns made the score better by 0 %." in answer.out
    assert "15 of 15 replies came without a complete count of tokens" in answer.out
    assert (
        "Floors: the best known algorithm of muon, by its counts and the ceilings (measured) of NVIDIA H200, "
        in answer.out
    )
    assert "as they are known here today (muon)." in answer.out
    assert not list(tmp_path.iterdir()), "nothing is written"


def test_floors_rest_on_the_ceilings_that_a_run_recorded_and_else_on_todays(study: Study, tmp_path: Path) -> None:
    """One copy of the sample recorded a slow GPU; a damaged file of today is nothing to it."""
    for name, ceilings in (("then", [to_data(SLOW)]), ("now", [])):
        run = shutil.copytree(SAMPLE, tmp_path / "traces" / "runs" / name) / "run.json"
        run.write_text(json.dumps({**json.loads(run.read_text()), "ceilings": ceilings}))
    headroom = ("--policy", "headroom:factor=1.1")
    answer = study("then", "now", *headroom)
    assert "then 6 of 12 unknown unknown 45.4 % 40.4 %".split() in [row[-10:] for row in cells(answer)]
    then, now = json.loads(study("then", "now", *headroom, "--json").out)["floors"]
    assert then.endswith("the ceilings (measured) of NVIDIA H200, as the run recorded them when it began (then)")
    assert now.endswith("as they are known here today (now)")
    today = tmp_path / ".cache" / "d2k-agent" / "ceilings" / "nvidia-h200.json"
    today.parent.mkdir(parents=True)
    today.write_text("{")
    assert study("then", *headroom).status == 0


def test_without_a_policy_a_few_of_each_kind_are_replayed(study: Study) -> None:
    data = json.loads(study(SAMPLE, "--json").out)
    assert [replay["policy"] for replay in data["replays"]] == list(DEFAULT_POLICIES)
    assert {replay["stops_after_turn"] for replay in data["replays"]} <= {None, 12}
    assert {replay["tokens_percent"] for replay in data["replays"]} == {0.0}, "nobody counted, and nothing is saved"
    assert {replay["usd_percent"] for replay in data["replays"]} == {0.0}
    assert [replay["final_score"] for replay in data["replays"]] == [pytest.approx(3.03, abs=0.005)] * len(
        DEFAULT_POLICIES
    )


def test_runs_of_one_kind_have_a_mean_and_a_range(study: Study, tmp_path: Path) -> None:
    recorded(tmp_path, "flat", *a_curved_run(2.0, None, None, None).events)
    recorded(tmp_path, "late", *a_curved_run(2.0, None, None, None, None, None, None, 4.0).events)
    recorded(tmp_path, "climbing", *a_curved_run(2.0, 2.5, 3.0).events)
    answer = study("traces/runs", *PLATEAU)
    assert answer.status == 0
    rows = cells(answer)
    assert "plateau:turns=2,percent=1 climbing its end (3) 0.0 % 0.0 % 0.0 % 100.0 %".split() in rows
    assert "flat 3 of 4 25.0 % 25.0 % 0.0 % 100.0 %".split() in rows
    assert "late 3 of 8 62.5 % 62.5 % 50.0 % 50.0 %".split() in rows
    mean = "mean of 3 2 of 3 runs 29.2 % (0.0 to 62.5) 29.2 % (0.0 to 62.5) 16.7 % (0.0 to 50.0) 83.3 % (50.0 to 100.0)"
    assert mean.split() in rows
    (mean_data,) = json.loads(study("traces/runs", *PLATEAU, "--json").out)["means"]
    assert (mean_data["runs"], mean_data["stopped"]) == (3, 2)
    assert mean_data["score_percent"] == pytest.approx({"known": 3, "mean": 250 / 3, "least": 50.0, "most": 100.0})


def test_a_mean_is_over_what_is_known_and_says_of_how_many(study: Study, tmp_path: Path) -> None:
    recorded(tmp_path, "priced", *a_curved_run(2.0, None, None, None).events)
    unpriced = [event for turn in range(1, 5) for event in a_turn(turn, 2.0 if turn == 1 else None, cost_usd=None)]
    recorded(tmp_path, "unpriced", *unpriced, *ending([2.0]))
    rows = cells(study("priced", "unpriced", *PLATEAU))
    assert "unpriced 3 of 4 25.0 % unknown 0.0 % 100.0 %".split() in rows
    mean = "mean of 2 2 of 2 runs 25.0 % (25.0 to 25.0) 25.0 % (25.0 to 25.0, of 1)"
    assert mean.split() in [row[: len(mean.split())] for row in rows]


def test_an_unknown_saving_is_no_zero_and_in_no_mean(study: Study, tmp_path: Path) -> None:
    recorded(tmp_path, "priced", *a_curved_run(2.0, None, None, None).events)
    costs = [(1, 0.25), (2, 0.25), (3, 0.25), (4, None)]
    partly = [event for turn, usd in costs for event in a_turn(turn, 2.0 if turn == 1 else None, cost_usd=usd)]
    recorded(tmp_path, "partly", *partly, *ending([2.0]))
    rows = cells(study("priced", "partly", *PLATEAU))
    assert "partly 3 of 4 25.0 % unknown 0.0 % 100.0 %".split() in rows
    mean = "mean of 2 2 of 2 runs 25.0 % (25.0 to 25.0) 25.0 % (25.0 to 25.0, of 1)"
    assert mean.split() in [row[: len(mean.split())] for row in rows]


def test_runs_of_another_kind_are_in_no_mean(study: Study, tmp_path: Path) -> None:
    events = a_curved_run(2.0, None, None, None).events
    recorded(tmp_path, "one", *events)
    recorded(tmp_path, "two", *events, run=record("two", protocol="paper"))
    answer = study("one", "two", *PLATEAU)
    assert "mean of" not in answer.out
    assert "differ in protocol: means are over runs of one kind." in answer.out
    data = json.loads(study("one", "two", *PLATEAU, "--json").out)
    assert [(mean["comparable"], mean["runs"]) for mean in data["means"]] == [(1, 1), (2, 1)]
    assert [kind["protocol"] for kind in data["kinds"]] == ["default", "paper"]


@pytest.mark.parametrize(
    ("config", "difference"),
    [
        ({"model": "other/model"}, "model"),
        ({"levels": ("L1", "L2")}, "levels"),
        ({"turns": 20}, "turns"),
        ({"stop_policy": "plateau"}, "stop policy"),
    ],
)
def test_runs_of_another_model_level_limit_or_policy_are_in_no_mean(
    config: dict[str, object], difference: str, study: Study, tmp_path: Path
) -> None:
    events = a_curved_run(2.0, None, None, None).events
    recorded(tmp_path, "one", *events, run=record("one", protocol="efficient"))
    recorded(tmp_path, "two", *events, run=record("two", protocol="efficient", **config))
    answer = study("one", "two", *PLATEAU)
    assert f"differ in {difference}: means are over runs of one kind." in answer.out and "mean of" not in answer.out
    assert "Model some/model, levels L1, a limit of 350 turns, stopping policy none." in answer.out


def test_what_a_policy_does_after_another_one_ended_the_run_nobody_knows(study: Study, tmp_path: Path) -> None:
    events = [*turns_of([2.0, None, None]), *ending([2.0, None, None], StopReason.STOP_POLICY)]
    recorded(tmp_path, "cut", *events, run=record("cut", protocol="efficient", stop_policy="plateau:turns=2,percent=1"))
    answer = study("cut", *PLATEAU, "--policy", "plateau:turns=5,percent=1")
    assert "plateau:turns=2,percent=1 cut its end (3) 0.0 % 0.0 % 0.0 % 100.0 %".split() in cells(answer)
    unknown = "plateau:turns=5,percent=1 cut cannot tell (3) unknown unknown unknown unknown"
    assert unknown.split() in cells(answer)
    assert "cannot tell when to stop (cut): its own stopping policy ended the run before." in answer.out


def test_a_run_that_a_policy_ended_says_so(study: Study, tmp_path: Path) -> None:
    stopped = PolicyStopped(turn=3, policy="plateau:turns=2,percent=1", why="nothing moved")
    events = [*turns_of([2.0, None, None]), stopped, *ending([2.0, None, None], StopReason.STOP_POLICY)]
    run = record("r", protocol="efficient", stop_policy=stopped.policy)
    recorded(tmp_path, "r", *events, run=run)
    assert dict(run_rows(Trace(run, tuple(events))))["stopping policy"] == stopped.policy
    told = "its stopping policy plateau:turns=2,percent=1 ended it after turn 3: nothing moved."
    assert f"r: {told}" in study("r", *PLATEAU).out
    shown = " ".join(event_text(event) for event in events)
    assert "turn 3: the stopping policy plateau:turns=2,percent=1 ends the run: nothing moved" in shown
    assert "finished: stop_policy after 3 turns" in shown
    assert ProgressLines().feed(stopped) == "the stopping policy plateau:turns=2,percent=1 ends the run: nothing moved"


def test_a_policy_that_cannot_tell_says_why(study: Study, tmp_path: Path) -> None:
    recorded(tmp_path, "one", *a_curved_run(2.0, None).events, run=record("one", task="/somebody/elses/task"))
    answer = study("one", "--policy", "headroom")
    assert "headroom:factor=1.2 one cannot tell (2) unknown unknown unknown unknown".split() == cells(answer)[1]
    assert "cannot tell when to stop (one): no floor of this task on NVIDIA H200 is known" in answer.out
    (replay,) = json.loads(study("one", "--policy", "headroom", "--json").out)["replays"]
    assert replay["undecided"] is True and replay["stops_after_turn"] is None


def test_runs_without_an_end_or_a_score_are_named_and_the_others_replayed(study: Study, tmp_path: Path) -> None:
    recorded(tmp_path, "whole", *a_curved_run(2.0, None, None).events)
    recorded(tmp_path, "cut", *turns_of([2.0]))
    recorded(tmp_path, "unmeasured", *on_a_cpu(None, None).events)
    other = recorded(tmp_path, "newer", *a_curved_run(2.0).events)
    run_json = json.loads((other / "run.json").read_text())
    (other / "run.json").write_text(json.dumps({**run_json, "format": 99}))
    answer = study("whole", "cut", "unmeasured", "newer", "gone", *PLATEAU)
    assert answer.status == 2 and "Traceback" not in answer.err
    complaints = answer.err.splitlines()
    for words in (
        "cut was interrupted after 1 turn, and its final score is not known; end it with `d2k-agent resume ",
        "unmeasured has no score: none of its 0 submissions was measured and stands",
        "is a run of format 99",
        "there is no run 'gone'",
    ):
        assert sum(words in line for line in complaints) == 1, (words, complaints)
    assert "whole" in answer.out and "cut" not in answer.out
    assert set(json.loads(study("whole", "cut", *PLATEAU, "--json").out)["problems"]) == {"cut"}


@pytest.mark.parametrize("turns", [(1, 1_000_000, 1_000_001), (1, 3, 2)])
def test_turns_that_do_not_follow_each_other_are_told_as_damage(
    turns: tuple[int, ...], study: Study, tmp_path: Path
) -> None:
    recorded(tmp_path, "whole", *a_curved_run(2.0, None, None).events)
    events = [event for turn in turns for event in a_turn(turn, 2.0 if turn == 1 else None)]
    recorded(tmp_path, "odd", *events, *ending([2.0, None, None]))
    answer = study("odd", "whole", "--policy", "plateau:turns=1,percent=1")
    assert answer.status == 2 and "Traceback" not in answer.err
    assert f"turn 2 is closed as number {turns[1]}" in answer.err and "restore the file from a copy" in answer.err
    assert "whole 2 of 3" in " ".join(answer.out.split()), "the run beside it is told"


def test_scores_that_no_kernel_has_are_told_as_damage(study: Study, tmp_path: Path) -> None:
    recorded(tmp_path, "odd", *a_curved_run(1e-300, 1e300).events)
    answer = study("odd", "--json", "--policy", "plateau:turns=1")
    assert_refused(answer, 2, "records that contradict each other", "finds numbers beyond all bounds")


def test_a_run_that_is_driven_is_to_be_waited_for(study: Study, tmp_path: Path) -> None:
    with RunFolder(recorded(tmp_path, "live", *turns_of([2.0]))).drive():
        answer = study("live")
    assert_refused(answer, 2, "live is still running, after 1 turn, and its final score is not known; wait for its end")


@pytest.mark.parametrize("policy", ["plato", "plateau:turns=0", "gain", "headroom:factor=0.5", ""])
def test_what_is_no_policy_is_refused_before_anything_is_read(policy: str, study: Study) -> None:
    assert_refused(study("gone", "--policy", policy), 2, "is no stopping policy", "give headroom:factor=1.2")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--stop-policy", "plateau"), "give --protocol efficient as well, or leave the policy out"),
        (("--stop-policy", "plateau", "--protocol", "paper"), "would end a run of the protocol paper"),
        (("--stop-policy", "plato", "--protocol", "efficient"), "'plato' is no stopping policy"),
    ],
)
def test_a_run_with_a_wrong_policy_does_not_begin(
    options: tuple[str, ...],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    status = main(["solve", "muon", *options])
    assert_refused(Answer(status, *capsys.readouterr()), 2, words)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--stop-policy", "plato", "--protocol", "efficient"), "'plato' is no stopping policy"),
        (("--tool", "profiler"), "--tool profiler: there is no such tool to add"),
        ((), "ep_dispatch_fp8 has no sample run to replay, as muon has"),
    ],
)
def test_a_wrong_option_is_told_before_a_missing_model(
    options: tuple[str, ...],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    status = main(["solve", "ep_dispatch_fp8", *options])
    assert_refused(Answer(status, *capsys.readouterr()), 2, words)


def test_a_run_records_its_policy_and_says_what_it_cannot_do(tmp_path: Path) -> None:
    model = script(tmp_path, call("bash", command="true"))
    policy = "gain:percent-per-usd=1"
    options = ("--model", model, "--protocol", "efficient", "--stop-policy", policy, "--run-dir", "r")
    answer = d2k("solve", "muon", *options, folder=tmp_path)
    assert answer.status == 0 and "will not stop this run: its replies have no known price" in answer.out + answer.err
    assert json.loads((tmp_path / "r" / "run.json").read_text())["config"]["stop_policy"] == policy
