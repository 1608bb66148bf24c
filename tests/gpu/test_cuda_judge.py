"""Verdicts of the CUDA device on a small task: what is measured, which clock catches what, and what a fault leaves."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from d2k_agent.contract import JobKind, Limits, Verdict, VerdictStatus
from d2k_agent.evaluator.evidence import GLUE
from d2k_agent.launchers import ProcessLauncher
from tests.evaluator.gpus import evaluator_environment
from tests.evaluator.scaling import HONEST, KERNEL, job, task

pytestmark = pytest.mark.gpu

LIMITS = Limits(gpu_call_s=20.0, compile_s=60.0)
LARGE = task(n=1 << 28)
"""One call takes about half a millisecond: batches."""
SHORT = task(n=1 << 20, mode="graph")
"""One call takes a few microseconds: graphs."""


@pytest.fixture(scope="module")
def launcher() -> Iterator[ProcessLauncher]:
    launcher = ProcessLauncher(evaluator_environment())
    yield launcher
    launcher.close()


def judged(launcher: ProcessLauncher, source: str, **options: object) -> Verdict:
    options = {"task": LARGE, "target": None, "baseline": HONEST, "device": "cuda", **options}
    return launcher.launch(job(source, LIMITS, **options))


@pytest.mark.parametrize(("bundle", "policy"), [(LARGE, "events_batch"), (SHORT, "graph_rotating")])
def test_an_honest_kernel_is_measured_by_every_clock(launcher: ProcessLauncher, bundle: object, policy: str) -> None:
    verdict = judged(launcher, HONEST, task=bundle)
    assert verdict.status is VerdictStatus.PASSED, (verdict.message, verdict.notes)
    (result,) = [item for item in verdict.workloads if item.registered]
    measured, baseline = result.measurement, result.baseline
    assert measured is not None and baseline is not None
    assert measured.policy == baseline.policy == policy
    assert measured.outside_ms == pytest.approx(measured.mean_ms, rel=0.02)
    assert measured.audit_ms is not None
    assert measured.audit_ms < measured.mean_ms * 1.03 + 0.05
    assert (measured.hot_ms is not None) == (policy == "graph_rotating")
    assert measured.sm_mhz is not None and measured.power_w is not None
    assert result.speedup == pytest.approx(1.0, abs=0.03), "the candidate is its own baseline"
    assert result.kernels == {"_scale": 1}
    assert verdict.geomean_speedup == pytest.approx(result.speedup)
    assert verdict.drift is not None
    assert verdict.eligible
    assert verdict.environment.device == "cuda"
    assert verdict.environment.target != "b200" or "B200" in verdict.environment.device_name


def test_without_a_baseline_there_is_a_latency_and_no_speedup(launcher: ProcessLauncher) -> None:
    verdict = judged(launcher, HONEST, baseline=None)
    assert verdict.status is VerdictStatus.PASSED
    assert verdict.geomean_speedup is None
    assert not verdict.eligible


def test_a_candidate_behind_the_incumbent_is_measured_once(launcher: ProcessLauncher) -> None:
    verdict = judged(launcher, HONEST, beat=1.5)
    assert verdict.status is VerdictStatus.PASSED
    assert verdict.drift is None


SIDE_STREAM = (
    KERNEL
    + """
side = None


def run(x, factor):
    global side
    if side is None:
        side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        return scaled(x, factor)
"""
)
FIRST_CALLS = (
    KERNEL
    + """
kept = {}


def run(x, factor):
    key = x.data_ptr()
    if key not in kept or kept[key][0] < 3:
        kept[key] = (kept.get(key, (0,))[0] + 1, scaled(x, factor))
    return kept[key][1]
"""
)
PATCHED_CLOCK = (
    KERNEL
    + """
elapsed = torch.cuda.Event.elapsed_time
torch.cuda.Event.elapsed_time = lambda self, end: elapsed(self, end) / 2


def run(x, factor):
    return scaled(x, factor)
"""
)
LAZY = (
    KERNEL
    + """
import threading
import time

out = {}


def run(x, factor):
    key = x.data_ptr()
    y = out.setdefault(key, torch.empty_like(x))

    def later():
        time.sleep(0.002)
        y.copy_(scaled(x, factor))

    threading.Thread(target=later).start()
    return y
"""
)
NOT_JOINED = SIDE_STREAM.replace("    with torch", "    side.wait_stream(torch.cuda.current_stream())\n    with torch")
JOINED = NOT_JOINED.replace(
    "        return scaled(x, factor)\n",
    "        y = scaled(x, factor)\n    torch.cuda.current_stream().wait_stream(side)\n    return y\n",
)
CHEATS = {
    "side stream": (SIDE_STREAM, {"stream_order"}),
    "a stream that nobody waits for": (NOT_JOINED, {"stream_order"}),
    "first calls only": (FIRST_CALLS, {"rel_norm", "finite"}),
    "patched clock": (PATCHED_CLOCK, {"timing.wall"}),
    "a thread that computes later": (LAZY, {"runtime.workers"}),
}


@pytest.mark.parametrize("name", CHEATS)
def test_without_static_rules_the_clocks_and_outputs_catch_it(launcher: ProcessLauncher, name: str) -> None:
    source, expected = CHEATS[name]
    verdict = judged(launcher, source, static_rules=False)
    failed = {check.gate for result in verdict.workloads for check in result.checks if not check.passed}
    caught = failed | {violation.check for violation in verdict.violations}
    assert not verdict.status.acceptable
    assert caught & expected, (verdict.status, verdict.message, caught)


def test_a_second_stream_that_is_joined_is_legal(launcher: ProcessLauncher) -> None:
    verdict = judged(launcher, JOINED, static_rules=False)
    assert verdict.status is VerdictStatus.PASSED, verdict.message


COPIES_AND_FILLS = (
    KERNEL
    + """
def run(x, factor):
    filled = torch.full((16, 16), 1.0, device=x.device)
    torch.empty_like(filled).copy_(filled.t())
    return scaled(x, factor)
"""
)
WAITS = KERNEL + "def run(x, factor):\n    y = scaled(x, factor)\n    torch.cuda.synchronize()\n    return y\n"


def test_glue_is_no_kernel_of_its_own(launcher: ProcessLauncher) -> None:
    verdict = judged(launcher, COPIES_AND_FILLS, kind=JobKind.CONFIRM)
    assert verdict.status is VerdictStatus.PASSED, (verdict.message, verdict.notes)
    (result,) = [item for item in verdict.workloads if item.registered]
    assert result.kernels == {"_scale": 1, GLUE: 2}


def test_the_profiler_reads_the_kernels_of_calls_that_cannot_be_captured(launcher: ProcessLauncher) -> None:
    verdict = judged(launcher, WAITS, static_rules=False, baseline=None)
    (result,) = [item for item in verdict.workloads if item.registered]
    assert result.measurement is not None, (verdict.message, verdict.notes)
    assert result.kernels == {"_scale": 1}
    assert result.measurement.device_ms is not None


WORKSPACE = (
    KERNEL
    + """
rooms = {}


def run(x, factor):
    if x.shape not in rooms:
        rooms[x.shape] = torch.empty(ROOM, dtype=torch.uint8, device=x.device)
    return scaled(x, factor)
"""
)


@pytest.mark.parametrize(("room", "status"), [(900_000, VerdictStatus.PASSED), (1_200_000, VerdictStatus.INCORRECT)])
def test_workspace_kept_by_shape_counts_in_calls_of_that_shape_alone(
    launcher: ProcessLauncher, room: int, status: VerdictStatus
) -> None:
    # The task allows a MiB beside the output.
    verdict = judged(launcher, WORKSPACE.replace("ROOM", str(room)), task=SHORT, baseline=None, static_rules=False)
    assert verdict.status is status, verdict.message
    failed = {check.gate for result in verdict.workloads for check in result.checks if not check.passed}
    assert failed == (set() if status is VerdictStatus.PASSED else {"memory"})


BY_PARITY = """
calls = []


def run(x, factor):
    calls.append(0)
    return scaled(x, factor * (1.0 + OFF * (-1.0) ** len(calls)))
"""


@pytest.mark.parametrize(("off", "failed"), [("8e-7", {"repeat"}), ("2e-7", set())])
def test_the_same_inputs_must_give_the_same_up_to_what_the_gates_allow(
    launcher: ProcessLauncher, off: str, failed: set[str]
) -> None:
    source = KERNEL + BY_PARITY.replace("OFF", off)
    verdict = judged(launcher, source, baseline=None, static_rules=False, workloads=("smoke_n1000",))
    assert verdict.status is (VerdictStatus.INCORRECT if failed else VerdictStatus.UNTIMED), verdict.message
    assert failed == {check.gate for result in verdict.workloads for check in result.checks if not check.passed}


IN_THE_WARM_UP = """
warm = []


def run(x, factor):
    if not warm:
        warm.append(True)
        torch.empty(1 << 30, dtype=torch.uint8, device=x.device)
    return scaled(x, factor)
"""


@pytest.mark.parametrize(("source", "most"), [(HONEST, 1 << 29), (KERNEL + IN_THE_WARM_UP, None)])
def test_what_a_process_keeps_of_a_gpus_memory_is_read_from_outside(
    launcher: ProcessLauncher, source: str, most: int | None
) -> None:
    verdict = judged(launcher, source, task=SHORT, baseline=None, static_rules=False)
    assert verdict.status is VerdictStatus.PASSED, verdict.message
    held = {
        result.label: check.value
        for result in verdict.workloads
        for check in result.checks
        if check.gate == "device_memory"
    }
    assert set(held) == {"smoke_n1000", "hidden.zeros"}
    if most is None:
        assert held["smoke_n1000"] >= 1 << 30, "PyTorch keeps it, though no tensor is alive"
    else:
        assert max(held.values()) < most


SPIN = """
@triton.jit
def _spin(x):
    value = tl.load(x)
    while value != 12345.0:
        value = tl.load(x, volatile=True)


def run(x, factor):
    y = torch.zeros_like(x)
    _spin[(1,)](y)
    return scaled(x, factor)
"""
OUT_OF_BOUNDS = """
@triton.jit
def _wild(y):
    tl.store(y + (1 << 40), 1.0)


def run(x, factor):
    y = scaled(x, factor)
    _wild[(1,)](y)
    return y
"""
HOG = """

def run(x, factor):
    room = [torch.empty(1 << 34, device=x.device) for _ in range(9)]
    return room[0]
"""
FAULTS = {
    "spin": (SPIN, {VerdictStatus.TIMED_OUT}),
    "store out of bounds": (OUT_OF_BOUNDS, {VerdictStatus.RUNTIME_ERROR}),
    "out of memory": (HOG, {VerdictStatus.OUT_OF_MEMORY}),
    "host hang": ("\n\ndef run(x, factor):\n    while True:\n        pass\n", {VerdictStatus.TIMED_OUT}),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_this_candidates_and_the_next_is_timed_as_ever(launcher: ProcessLauncher, name: str) -> None:
    source, expected = FAULTS[name]
    limits = Limits(gpu_call_s=5.0, call_s=5.0, compile_s=8.0)
    verdict = launcher.launch(job(KERNEL + source, limits, task=LARGE, target=None, device="cuda", static_rules=False))
    assert verdict.status in expected, verdict.message
    after = judged(launcher, HONEST, beat=10.0)
    assert after.status is VerdictStatus.PASSED, after.message
    assert after.geomean_speedup == pytest.approx(1.0, abs=0.03)


def test_the_profile_names_the_kernel(launcher: ProcessLauncher) -> None:
    verdict = judged(launcher, HONEST, kind=JobKind.PROFILE)
    assert verdict.profile is not None, verdict.notes
    assert "_scale" in verdict.profile.kernels[0].name
    assert verdict.profile.kernels[0].dram_percent is not None


def test_a_confirmation_adds_the_profilers_clock(launcher: ProcessLauncher) -> None:
    verdict = judged(launcher, HONEST, kind=JobKind.CONFIRM)
    assert verdict.status is VerdictStatus.PASSED, verdict.message
    (measured,) = [item.measurement for item in verdict.workloads if item.measurement]
    assert measured.device_ms == pytest.approx(measured.mean_ms, rel=0.25), verdict.notes


def latency(launcher: ProcessLauncher) -> float:
    verdict = judged(launcher, HONEST, baseline=None)
    (measured,) = [item.measurement for item in verdict.workloads if item.measurement]
    return float(measured.mean_ms)


def test_two_users_of_one_gpu_measure_what_one_does(launcher: ProcessLauncher) -> None:
    alone = latency(launcher)
    other = ProcessLauncher(evaluator_environment())
    try:
        with ThreadPoolExecutor(2) as pool:
            together = list(pool.map(latency, (launcher, other)))
    finally:
        other.close()
    assert together == pytest.approx([alone, alone], rel=0.01)
