"""A stopping policy in a run that goes on: it ends in its selection, and the model learns nothing of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from d2k_agent.agent import Outcome, run_agent
from d2k_agent.config import PROTOCOLS, RunConfig, Settings
from d2k_agent.errors import UsageError
from d2k_agent.models import Model
from d2k_agent.records import EventLog, Point, PolicyStopped, RunFinished, RunFolder, StopReason, Trace, read_trace
from d2k_agent.study import FloorsFor, Headroom, Plateau, Policy, stop_rule
from tests.agent.scene import Counted, Requests, call, hand_in, new_run, reply, scripted, toolbox
from tests.study.replayed import floors, no_floors

WORK = reply(call("bash", command="true"))
CLIMB = [WORK, hand_in("# speedup 2\n"), hand_in("# speedup 2.5\n"), WORK, WORK, WORK, hand_in("# speedup 9\n")]
SECRET_MS = 0.7654321
FLOORS = floors(small=SECRET_MS, large=SECRET_MS)
"""A candidate of speedup 2.5 takes 0.8 ms."""


def driven(run: RunFolder, model: Model, policy: Policy | None, floors_for: FloorsFor = no_floors) -> Outcome:
    """Drive `run` to its end under a policy."""
    rule = None if policy is None else stop_rule(policy, floors_for)
    return run_agent(run, run.read_record().config, model, toolbox(run), lambda event: None, stopping=rule)


def stops_in(trace: Trace) -> list[PolicyStopped]:
    return [event for event in trace.events if isinstance(event, PolicyStopped)]


def new(path: Path, **config: Any) -> RunFolder:
    return new_run(path, protocol="efficient", **config)


@pytest.mark.parametrize(
    ("policy", "turn", "numbers"),
    [
        (Plateau(turns=2, percent=1.0), 5, {"gained_percent": 0.0}),
        (Headroom(1.1), 3, {"over_floor": pytest.approx(0.8 / SECRET_MS)}),
    ],
    ids=["plateau", "headroom"],
)
def test_it_ends_the_run_in_its_selection_and_the_record_says_why(
    policy: Policy, turn: int, numbers: dict[str, Any], tmp_path: Path
) -> None:
    run = new(tmp_path / "r")
    outcome = driven(run, Counted(scripted(CLIMB)), policy, FLOORS)
    assert outcome.stop_reason is StopReason.STOP_POLICY
    assert outcome.selection is not None and outcome.selection.geomean_speedup == 2.5
    trace = read_trace(run.path)
    (stopped,) = stops_in(trace)
    assert (trace.turns, stopped.turn, stopped.policy) == (turn, turn, policy.text)
    assert stopped.numbers.items() >= numbers.items() and stopped.why


def test_without_a_policy_nothing_ends_a_run_early(tmp_path: Path) -> None:
    run = new(tmp_path / "r")
    assert driven(run, scripted(CLIMB), None).stop_reason is StopReason.SCRIPT_ENDED
    assert read_trace(run.path).turns == len(CLIMB)


@pytest.mark.parametrize("show_budget", [False, True])
def test_the_model_is_told_nothing_of_it(show_budget: bool, tmp_path: Path) -> None:
    """Up to its last byte a run's conversation is that of a run without a policy."""
    told: dict[str, Requests] = {"with": [], "without": []}
    for name, policy in (("with", Headroom(1.1)), ("without", None)):
        run = new(tmp_path / name, show_budget=show_budget, stop_policy=policy and policy.text)
        driven(run, Counted(scripted(CLIMB, told[name])), policy, FLOORS)
    assert told["without"][: len(told["with"])] == told["with"] and len(told["with"]) == 3
    said = b"".join(told["with"]).decode()
    assert "headroom" not in said and "floor" not in said and str(SECRET_MS)[:6] not in said


def test_a_policy_that_cannot_tell_lets_the_run_go_on(tmp_path: Path) -> None:
    run = new(tmp_path / "r")
    assert driven(run, scripted(CLIMB), Headroom(100.0)).stop_reason is StopReason.SCRIPT_ENDED


def test_a_budget_that_is_reached_at_the_same_time_is_what_ended_the_run(tmp_path: Path) -> None:
    run = new(tmp_path / "r", turns=3)
    assert driven(run, scripted(CLIMB), Headroom(1.1), FLOORS).stop_reason is StopReason.TURN_LIMIT
    assert stops_in(read_trace(run.path)) == []


@pytest.mark.parametrize("checkpoint", [True, False])
@pytest.mark.parametrize("recorded", [True, False])
def test_a_crash_around_the_decision_changes_nothing(recorded: bool, checkpoint: bool, tmp_path: Path) -> None:
    """The process dies before or after the decision is recorded; it is recorded once, and no turn is decided anew."""
    run = new(tmp_path / "r")
    decide = stop_rule(Plateau(turns=2, percent=1.0), no_floors)
    asked: list[int] = []

    def dying(points: Sequence[Point]) -> PolicyStopped | None:
        stopped = decide(points)
        if stopped is not None:
            if recorded:
                with EventLog(run.events) as log:
                    log.append(stopped)
            raise KeyboardInterrupt
        return None

    def watched(points: Sequence[Point]) -> PolicyStopped | None:
        asked.append(points[-1].turn)
        return decide(points)

    config, model = run.read_record().config, scripted(CLIMB)
    with pytest.raises(KeyboardInterrupt):
        run_agent(run, config, model, toolbox(run), lambda event: None, stopping=dying)
    if not checkpoint:
        run.checkpoint.unlink()
    outcome = run_agent(run, config, model, toolbox(run), lambda event: None, stopping=watched)
    assert outcome.stop_reason is StopReason.STOP_POLICY
    trace = read_trace(run.path)
    assert [event.turn for event in stops_in(trace)] == [5] and trace.turns == 5
    assert asked == ([] if recorded else [5])
    assert [event.turns for event in trace.events if isinstance(event, RunFinished)] == [5]


@pytest.mark.parametrize("protocol", [name for name in PROTOCOLS if name != "efficient"])
def test_only_the_efficient_protocol_has_a_stopping_policy(protocol: str) -> None:
    with pytest.raises(UsageError, match="give --protocol efficient as well, or leave the policy out"):
        RunConfig(task="t", model="m", protocol=protocol, stop_policy="plateau")
    wishes = Settings(protocol="efficient", stop_policy="plateau")
    assert wishes.resolve("t", "m", ()).stop_policy == "plateau"
    assert Settings(protocol=protocol).resolve("t", "m", ()).stop_policy is None
