"""From launches to a line a kernel."""

from __future__ import annotations

import subprocess
import sys

import pytest

from d2k_agent.contract import ProfileWish
from d2k_agent.evaluator.profiling import metrics
from d2k_agent.evaluator.profiling.digest import digest, hottest
from d2k_agent.evaluator.profiling.table import Launch, read_launches
from d2k_agent.evaluator.profiling.unavailable import ProfileUnavailable
from tests.evaluator.profiling.fakes import CASES, RAW


def launch(name: str, ns: float, **values: float) -> Launch:
    return Launch(name, (1,), (int(ns),), None, {metrics.DURATION: ns, **values})


def test_two_launches_of_a_matrix_product_on_an_h200() -> None:
    profile = digest(read_launches(RAW), "large", "ncu 2025.3.1")
    (kernel,) = profile.kernels
    assert (profile.workload, profile.tool, profile.notes) == ("large", "ncu 2025.3.1", ())
    assert (kernel.name, kernel.launches, kernel.share) == ("mm", 2, 1.0)
    assert profile.duration_us == kernel.duration_us == pytest.approx(393.536)
    assert (kernel.grid, kernel.block, kernel.registers) == ((32, 16, 1), (256, 1, 1), 184)
    assert kernel.sm_percent == pytest.approx(82.21, abs=0.01)
    assert kernel.tensor_percent == pytest.approx(82.21, abs=0.01)
    assert kernel.dram_percent == pytest.approx(21.39)
    assert kernel.l2_hit_percent == pytest.approx(70.1, abs=0.1)
    assert kernel.occupancy_percent == pytest.approx(12.435, abs=0.001)
    assert kernel.occupancy_limiter == "registers, shared memory"
    assert kernel.main_stall == "long scoreboard (waiting for global memory)"
    assert kernel.main_stall_percent == pytest.approx(30.2, abs=0.3)


def test_the_details_page_gives_what_its_labels_name() -> None:
    (kernel,) = digest(read_launches((CASES / "details_h200.csv").read_text()), "large", "ncu").kernels
    assert kernel.duration_us == pytest.approx(394.304)
    assert kernel.occupancy_limiter == "registers, shared memory"
    assert kernel.dram_percent == pytest.approx(21.33, abs=0.1)
    assert (kernel.tensor_percent, kernel.main_stall, kernel.main_stall_percent) == (None, None, None)


def test_launches_are_added_up_by_kernel_and_weighted_by_their_time() -> None:
    launches = [
        launch("small", 1000, **{metrics.SM: 80.0}),
        launch("large", 3000, **{metrics.SM: 10.0, metrics.REGISTERS: 32.0}),
        launch("large", 1000, **{metrics.SM: 50.0, metrics.REGISTERS: 64.0}),
        launch("large", 5000),
    ]
    profile = digest(launches, "w", "ncu")
    assert [(kernel.name, kernel.launches, kernel.share) for kernel in profile.kernels] == [
        ("large", 3, 0.9),
        ("small", 1, 0.1),
    ]
    large = profile.kernels[0]
    assert large.sm_percent == pytest.approx(20.0)
    assert (large.registers, large.block, large.dram_percent) == (64, (5000,), None)


def test_launches_of_several_shapes_are_said_to_be_means() -> None:
    launches = [launch("gram", 4000), launch("gram", 2000), launch("gram", 2000), launch("apply", 5000)]
    profile = digest([*launches, launch("tiny", 10), launch("tiny", 20)], "w", "ncu")
    assert profile.notes == ("launches of several shapes are one row, percentages their means: gram (2)",)
    assert digest([launch("gram", 4000), launch("gram", 4000)], "w", "ncu").notes == ()


def test_the_longest_kernel_comes_first_whatever_its_unit() -> None:
    """Case D03a: 1,234.56 us is more than 1.20 ms."""
    profile = digest(read_launches((CASES / "D03a_details_scaled.csv").read_text()), "w", "ncu")
    assert [kernel.name for kernel in profile.kernels] == ["_axpby_bmm", "_normalise"]
    assert profile.kernels[0].occupancy_percent is None


def test_the_kernels_that_hold_most_of_the_time_are_few() -> None:
    launches = [launch("a", 700), launch("b", 150), launch("a", 50), launch("c", 60), launch("d", 40)]
    assert hottest(launches, 3, 0.8) == ["a", "b"]
    assert hottest(launches, 3, 1.0) == ["a", "b", "c"]
    assert hottest(launches, 3, 0.5) == ["a"]


def test_what_only_a_section_counts_comes_from_the_launches_looked_into() -> None:
    light = [launch("mm", 3000, **{metrics.DRAM: 20.0}), launch("other", 1000)]
    again = [launch("mm", 3000, **{metrics.SM: 80.0, metrics.L2_HIT: 70.0, metrics.DRAM: 99.0})]
    mm, other = digest(light, "w", "ncu", deeper=again, wish=ProfileWish(("memory",))).kernels
    assert (mm.sm_percent, mm.l2_hit_percent, mm.dram_percent) == (80.0, 70.0, 20.0)
    assert mm.counters == {metrics.L2_HIT: 70.0, metrics.SM: 80.0}
    assert other.counters == {} and other.sm_percent is None


def test_a_hundred_launches_are_one_line() -> None:
    """Case D04."""
    argv = [sys.executable, str(CASES / "D04_fake_ncu_autotune.py")]
    done = subprocess.run(argv, env={"FAKE_NCU_SECONDS": "0"}, capture_output=True, text=True, timeout=60, check=True)
    profile = digest(read_launches(done.stdout), "w", "ncu")
    assert [(kernel.name, kernel.launches) for kernel in profile.kernels] == [("_axpby_bmm", 140)]
    assert profile.duration_us == pytest.approx((sum(9_000_000 - 50_000 * i for i in range(138)) + 2 * 1_900_000) / 1e3)


def test_a_launch_without_a_duration_is_left_out_and_said() -> None:
    profile = digest([launch("a", 1000), Launch("b", (), (), None, {metrics.DURATION: None})], "w", "ncu", ["cut"])
    assert profile.notes == ("cut", "1 launch(es) without a duration were left out")
    with pytest.raises(ProfileUnavailable, match="without their durations"):
        digest([Launch("b", (), (), None)], "w", "ncu")
