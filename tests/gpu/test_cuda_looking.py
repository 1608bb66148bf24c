"""Profiles with sections and compute-sanitizer on a GPU: what the real tools say of kernels with known faults."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from d2k_agent.contract import (
    SECTIONS,
    Bottleneck,
    JobKind,
    Limits,
    Profile,
    ProfileWish,
    SanitizerCheck,
    SanitizerReport,
    VerdictStatus,
)
from d2k_agent.evaluator.profiling.sections import COLD
from d2k_agent.launchers import ProcessLauncher
from tests.evaluator.gpus import evaluator_environment
from tests.evaluator.scaling import HONEST, KERNEL, job, task

pytestmark = pytest.mark.gpu

LIMITS = Limits(gpu_call_s=20.0, compile_s=240.0)
BYTES = 4 << 26
STREAM = HONEST.replace("128", "4096")
"""Enough bytes a block to fill the memory's pipes."""
LARGE, TINY = task(n=1 << 26), task(n=1 << 10)
CACHED_BYTES = 4 << 20
IN_CACHE = task(n=CACHED_BYTES >> 2)
"""Small enough to stay in the L2 cache from one replay to the next."""


@pytest.fixture(scope="module")
def launcher() -> Iterator[ProcessLauncher]:
    launcher = ProcessLauncher(evaluator_environment())
    yield launcher
    launcher.close()


def profiled(launcher: ProcessLauncher, bundle: object, wish: ProfileWish, source: str = HONEST) -> Profile:
    asked = job(source, LIMITS, kind=JobKind.PROFILE, task=bundle, target=None, device="cuda", profile=wish)
    verdict = launcher.launch(asked)
    assert verdict.profile is not None, (verdict.status, verdict.message, verdict.notes)
    return verdict.profile


def test_the_light_set_is_known_to_this_gpu_and_names_the_memory(launcher: ProcessLauncher) -> None:
    profile = profiled(launcher, LARGE, ProfileWish(), STREAM)
    (kernel,) = profile.kernels
    assert (profile.notes, profile.passes) == ((), 1), "counters of the call itself: read in one pass"
    assert kernel.diagnosis is not None and kernel.diagnosis.bottleneck is Bottleneck.DRAM
    known = (kernel.tensor_percent, kernel.l2_percent, kernel.shared_percent, kernel.pipe_percent, kernel.waves)
    assert None not in known
    assert kernel.waves is not None and kernel.waves > 1
    assert kernel.counters == {} and kernel.hot_lines == ()


def test_every_section_tells_of_the_longest_kernel(launcher: ProcessLauncher) -> None:
    profile = profiled(launcher, LARGE, ProfileWish(SECTIONS))
    (kernel,) = profile.kernels
    assert profile.notes == (COLD,)
    assert kernel.section_launches == kernel.launches == 1
    assert kernel.counters["dram__bytes_read.sum"] == pytest.approx(BYTES, rel=0.2)
    assert kernel.counters["smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"] == pytest.approx(
        32, rel=0.01
    )
    assert kernel.counters["sm__inst_executed.avg.per_cycle_active"] > 0
    assert kernel.main_stall is not None and kernel.main_stall_percent is not None
    store = next(number for number, line in enumerate(KERNEL.splitlines(), start=1) if "tl.store" in line)
    assert store in [line.line for line in kernel.hot_lines]
    assert any("tl.store" in line.text for line in kernel.hot_lines)
    assert sum(line.share for line in kernel.hot_lines) > 0.5


def test_traffic_is_that_of_a_cold_cache_also_where_a_replay_would_find_it_warm(launcher: ProcessLauncher) -> None:
    (kernel,) = profiled(launcher, IN_CACHE, ProfileWish(("memory",))).kernels
    assert kernel.counters["dram__bytes_read.sum"] == pytest.approx(CACHED_BYTES, rel=0.25)


def test_a_call_that_waits_for_its_launches_is_told_so(launcher: ProcessLauncher) -> None:
    profile = profiled(launcher, TINY, ProfileWish(call_ms=1.0))
    assert profile.diagnosis is not None and profile.diagnosis.bottleneck is Bottleneck.LAUNCH
    (kernel,) = profile.kernels
    assert kernel.diagnosis is not None and kernel.diagnosis.bottleneck is Bottleneck.LATENCY
    assert kernel.diagnosis.evidence[0].counter.startswith("8 blocks for "), "most multiprocessors have none"


OUT_OF_BOUNDS = HONEST.replace(" * factor, mask=o < n)", " * factor)")
"""Writes whole blocks: at n = 1000 the last 24 numbers lie behind the output."""
UNINITIALISED = KERNEL + "def run(x, factor):\n    return scaled(torch.empty_like(x), factor)\n"


def checked(launcher: ProcessLauncher, source: str, check: SanitizerCheck) -> SanitizerReport:
    verdict = launcher.launch(job(source, LIMITS, kind=JobKind.SANITIZE, target=None, device="cuda", check=check))
    assert verdict.status is VerdictStatus.UNTIMED, verdict.message
    assert verdict.sanitizer is not None, verdict.notes
    return verdict.sanitizer


@pytest.mark.parametrize("check", list(SanitizerCheck))
def test_a_right_kernel_is_clean(launcher: ProcessLauncher, check: SanitizerCheck) -> None:
    report = checked(launcher, HONEST, check)
    assert report.clean, report.first
    assert report.workloads == ("smoke_n1000",)


def test_a_write_out_of_bounds_is_found_at_its_line(launcher: ProcessLauncher) -> None:
    report = checked(launcher, OUT_OF_BOUNDS, SanitizerCheck.MEMCHECK)
    assert report.errors > 0
    (first, *_) = report.first
    assert "__global__ write" in first.kind and first.kernel == "_scale"
    assert first.line == next(n for n, line in enumerate(OUT_OF_BOUNDS.splitlines(), start=1) if "tl.store" in line)


def test_a_read_of_unwritten_memory_is_found(launcher: ProcessLauncher) -> None:
    report = checked(launcher, UNINITIALISED, SanitizerCheck.INITCHECK)
    assert report.errors > 0 and report.first[0].kernel == "_scale"
