"""The arithmetic of timing: sets, graphs, suspicions, drift, and two measurements as one. No GPU is needed for it."""

from __future__ import annotations

import dataclasses
import itertools
import json
import mmap
import threading
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")
import torch

from d2k_agent.contract import Measurement
from d2k_agent.contract.rotation import sets_for
from d2k_agent.evaluator.faults import CandidateFault
from d2k_agent.evaluator.metering import MeteredCalls
from d2k_agent.evaluator.process import raised
from d2k_agent.evaluator.timing import policy
from d2k_agent.evaluator.timing.audit import Audit, Step
from d2k_agent.evaluator.timing.graph import Kernels, RepeatedCalls, irregular, kernels_of
from d2k_agent.evaluator.timing.page import DONE, GO, Page
from d2k_agent.evaluator.timing.results import failure_of, results_of
from d2k_agent.evaluator.timing.segment import Segment, short_suspicion, wall_suspicion
from d2k_agent.evaluator.timing.session import Outcome, geomean, together
from tests.evaluator.timed_cpu import TimedCpu

MIB, GIB = 1 << 20, 1 << 30


def measured(mean_ms: float, calls: int = 100, **more: float) -> Measurement:
    return Measurement(mean_ms, calls, 2, mean_ms * 1.001, "events_batch", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("footprint", "sets"),
    [
        (16 * MIB, 24),  # 24 allocations are above twice the cache
        (MIB, 100),  # twice a cache of 50 MiB
        (1024, 4096),  # the bound on their number
        (3 * GIB, 1),
        (1700 * MIB, 2),
        (9 * GIB, 1),  # one set at least, however large
    ],
)
def test_sets_are_enough_to_leave_the_cache_and_few_enough_to_fit(footprint: int, sets: int) -> None:
    assert sets_for(footprint, 50 * MIB, 4096, footprint) == sets


def test_small_blocks_take_whole_granules_of_the_device() -> None:
    assert sets_for(1024, 50 * MIB, 4096, 4 * MIB) == 1024


@pytest.mark.parametrize("sets", [1, 24, 100, 4096])
def test_a_graph_visits_each_set_equally_often(sets: int) -> None:
    calls = policy.graph_calls(2000, sets)
    assert calls % sets == 0
    assert calls >= min(sets, 1900)
    assert calls <= max(sets, 2000)
    assert policy.graph_calls(0.4 * sets, sets) == policy.graph_calls(1.9 * sets, sets) == sets


def test_an_audited_step_is_long_enough_to_hide_its_ends() -> None:
    assert policy.calls_a_step(0.006, 50.0) * 0.006 >= 50.0
    assert policy.calls_a_step(100.0, 50.0) == 1


def steps(*wall_ms: float, inside: float = 0.9) -> list[Step]:
    return [Step(each, inside * each) for each in wall_ms]


def audited(same: list[Step], new: list[Step], lockstep: float = 0.0) -> Audit:
    """24 calls a step; in lockstep so many milliseconds a call."""
    return Audit("w", policy.GRAPH_ROTATING, 10, steps(10 * lockstep), 24, same, new)


def told(audit: Audit, claimed_ms: float) -> str:
    return audit.suspicions(claimed_ms).get("timing.audit", "")


def test_what_is_as_fast_with_new_contents_remembers_nothing() -> None:
    # 24 calls of 6 us, slower in a step of their own; one step was disturbed.
    assert told(audited(steps(0.300, 0.301, 0.299), steps(0.310, 0.9, 0.302)), 0.006) == ""


def test_what_is_slower_with_new_contents_remembers() -> None:
    # 1 us a call where it knows the contents, 6 us where it does not.
    assert "where it cannot remember" in told(audited(steps(0.18, 0.18), steps(0.30, 0.31)), 0.001)


def test_the_clock_inside_shows_what_a_steps_own_cost_hides() -> None:
    # 1 and 4 us a call, beside 0.5 ms that a step takes for itself on a busy machine.
    same, new = [Step(0.524, 0.024)], [Step(0.596, 0.096)]
    assert "0.004 ms a call with new contents, 0.001 ms" in told(audited(same, new), 0.001)
    assert told(audited(same, [Step(0.54, 0.04)]), 0.02) == "", "no more than its jitter"


def test_what_does_honest_work_in_steps_of_both_kinds_is_held_to_its_claim() -> None:
    # 0.3 ms for 24 calls, whether their contents are new or not; a claim of 6 us a call fits, one of 1 us does not.
    assert told(audited(steps(0.3), steps(0.3)), 0.006) == ""
    words = told(audited(steps(0.3), steps(0.3)), 0.001)
    assert "takes longer on w in steps of 24 calls than it claims, whatever their contents" in words
    assert "remember" not in words, "it was no slower with new ones"


def test_a_claim_that_became_longer_meanwhile_explains_longer_steps() -> None:
    slow = audited(steps(0.6), steps(0.6), lockstep=0.02)
    assert "differs from audited work" in told(slow, 0.006)
    assert told(slow, 0.02) == "", "as one more segment told"


@pytest.mark.parametrize(
    ("gpus", "inputs", "outputs", "sets"),
    [
        (1, 4 << 30, 240 * MIB, 1),
        (4, 4 << 30, 240 * MIB, 3),  # a quarter on each, of which 4 GiB hold three
        (2, 400 * MIB, 32 * MIB, 18),
        (8, 64 * MIB, 8 * MIB, 24),
    ],
)
def test_several_gpus_hold_a_share_of_each_set(gpus: int, inputs: int, outputs: int, sets: int) -> None:
    device = TimedCpu(*map(str, range(gpus)))
    device.most_sets, device.granule_bytes = 4096, 2 * MIB
    assert policy.sets_on(device, (inputs, outputs)) == sets


def test_the_policy_is_the_tasks_and_nonsense_is_refused() -> None:
    assert policy.policies_of({}, ()) == {"": policy.EVENTS_BATCH}
    assert policy.policies_of({"timing": {"mode": "graph"}}, ("a",)) == {"": policy.GRAPH_ROTATING}
    mixed = {"mode": "batch", "workloads": {"a": "graph"}}
    assert policy.policies_of({"timing": mixed}, ("a", "b")) == {"": policy.EVENTS_BATCH, "a": policy.GRAPH_ROTATING}
    for wrong in (5, {"mode": "fast"}, {}, {"mode": ["batch"]}, {"workloads": {"a": "graph"}}, {**mixed, "clock": 1}):
        with pytest.raises(ValueError, match="batch, graph"):
            policy.policies_of({"timing": wrong}, ("a",))
    with pytest.raises(ValueError, match="by the label of registered ones"):
        policy.policies_of({"timing": mixed}, ("b",))


def test_a_claim_that_falls_short_in_every_segment_is_suspicious() -> None:
    honest = [Segment(10, 1000.0, 1000.5), Segment(10, 1000.0, 1031.0)]
    assert wall_suspicion(honest, 0.01) == {}, "one segment that agrees is enough: the other was disturbed"
    short = [Segment(10, 900.0, 1000.0), Segment(10, 950.0, 1000.0)]
    assert "5.3% shorter" in wall_suspicion(short, 0.01)["timing.wall"]
    long = [Segment(10, 1100.0, 1000.0)]
    assert "longer" in wall_suspicion(long, 0.01)["timing.wall"]


def test_a_segment_that_lasted_a_fraction_of_its_time_is_suspicious() -> None:
    whole, short = Segment(10, 199.0, 200.0), Segment(7, 149.0, 150.0)
    assert short_suspicion([whole, Segment(8, 169.0, 170.0)], 0.2) == {}
    assert "lasted 150 ms of 200 again and again" in short_suspicion([whole, short], 0.2)["timing.short"]


@pytest.mark.parametrize(
    ("told", "digest", "words"),
    [
        (Kernels(2, 8, True, "d"), None, ""),
        (Kernels(2, 8, True, "d"), "d", ""),
        (Kernels(2, 7, False, "d"), "d", "7 kernels were captured for 4 calls, one call alone makes 2"),
        (Kernels(2, 8, False, "d"), "d", "8 kernels"),
        (Kernels(2, 7, True, "d"), "d", "7 kernels"),
        (Kernels(2, 8, True, "e"), "d", "other kernels than it did"),
        (Kernels(0, 0, True, "d"), None, "no kernel"),
    ],
)
def test_a_graph_holds_one_calls_kernels_again_and_again(told: Kernels, digest: str | None, words: str) -> None:
    found = irregular(told, 4, digest)
    assert words in found
    assert bool(found) == bool(words)


@pytest.mark.parametrize("keep", range(4))
def test_what_is_compared_of_a_graph_are_the_outputs_of_the_round_that_was_chosen(keep: int) -> None:
    made = itertools.count()
    sets = [SimpleNamespace(arguments=[torch.zeros(1)]) for _ in range(3)]
    graph = RepeatedCalls(lambda _: torch.tensor([next(made)]), sets, 12, keep, MeteredCalls())  # type: ignore[arg-type]
    assert {index: int(kept) for index, (kept,) in graph.outputs.items()} == {n: 3 * keep + n for n in range(3)}


@pytest.mark.parametrize(
    ("kind", "status", "told"), [("RuntimeError", "runtime_error", True), ("OutOfMemoryError", "out_of_memory", False)]
)
def test_what_no_graph_can_hold_is_told_as_that(kind: str, status: str, told: bool) -> None:
    answer = {"kinds": [kind], "text": "operation not permitted when stream is capturing", "line": 84}

    def capture() -> bytes:
        raise raised(json.dumps(answer).encode(), "run() on a")

    with pytest.raises(CandidateFault) as caught:
        kernels_of(capture, "a")
    assert caught.value.status == status
    assert "capturing" in caught.value.message
    assert "capturing" not in caught.value.brief, "words of the candidate's own"
    for text in (caught.value.message, caught.value.brief):
        assert f"run() on a raised {kind} (solution.py line 84)" in text
        assert ("captured into a CUDA graph" in text) == told


def test_the_page_tells_the_other_side_and_a_dead_one_is_noticed() -> None:
    mapping = mmap.mmap(-1, 4096)
    ours, theirs = Page(mapping), Page(mapping)

    def candidate() -> None:
        theirs.wait(GO, 7)
        theirs[DONE] = 7

    other = threading.Thread(target=candidate)
    other.start()
    ours[GO] = 7
    ours.wait(DONE, 7)
    other.join()
    assert ours[DONE] == 7
    ours.wait(DONE, 8, ended=lambda: True)  # returns though nobody wrote it
    ours.close()
    theirs.close()


def test_two_measurements_are_one_over_all_their_calls() -> None:
    both = together(measured(1.0, 100, audit_ms=1.1, sm_mhz=1980.0), measured(2.0, 300, sm_mhz=1380.0))
    assert both.mean_ms == pytest.approx(1.5), "the second one made three times the calls, and counts as much"
    assert both.calls == 400
    assert both.batches == 4
    assert both.audit_ms == 1.1
    assert both.device_ms is None
    assert both.sm_mhz == 1680.0


def test_a_speedup_needs_a_baseline_that_stood_still() -> None:
    outcome = Outcome(
        measured={"a": measured(1.0), "b": measured(4.0)},
        checks={"a": [], "b": []},
        baseline={"a": measured(2.0), "b": measured(32.0)},
        drift=0.01,
    )
    assert [result.speedup for result in results_of(outcome)] == [2.0, 8.0]
    assert outcome.geomean_speedup() == pytest.approx(4.0)
    outcome.drift = 0.03
    assert [result.speedup for result in results_of(outcome)] == [None, None]
    assert outcome.geomean_speedup() is None
    assert geomean([]) is None
    assert geomean([2.0, None]) is None


def test_a_speedup_needs_one_policy() -> None:
    outcome = Outcome(measured={"a": measured(1.0)}, baseline={"a": dataclasses.replace(measured(2.0), policy="other")})
    assert outcome.speedup("a") is outcome.geomean_speedup() is None
    assert outcome.unlike("a") == "a was timed by events_batch, its baseline by other: no speedup"


def test_noise_is_no_latency() -> None:
    outcome = Outcome(failed="a", noisy="a", notes=["a: timed segments differ by 9.0%, twice"])
    result = failure_of(outcome)
    assert result.status == "noisy"
    assert result.measurement is None
