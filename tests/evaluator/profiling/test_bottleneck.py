"""The rules that name a bottleneck, one by one, and on what was recorded on an H200."""

from __future__ import annotations

import pytest

from d2k_agent.contract import Bottleneck, Diagnosis, Evidence, KernelProfile, ProfileWish
from d2k_agent.evaluator.profiling import metrics
from d2k_agent.evaluator.profiling.bottleneck import (
    GAP,
    IDLE,
    LOOKED_AT,
    Spread,
    Unit,
    call_diagnosis,
    kernel_diagnosis,
)
from d2k_agent.evaluator.profiling.digest import digest
from d2k_agent.evaluator.profiling.table import Launch, read_launches
from tests.evaluator.profiling.fakes import CASES, RAW


def units(
    tensor: float | None = None,
    dram: float | None = None,
    l2: float | None = None,
    pipe: float | None = None,
    shared: float | None = 0.0,
) -> list[Unit]:
    given = {Bottleneck.TENSOR: tensor, Bottleneck.DRAM: dram, Bottleneck.L2: l2, Bottleneck.PIPE: pipe}
    given[Bottleneck.SHARED] = shared
    return [Unit(bottleneck, str(bottleneck), percent) for bottleneck, percent in given.items()]


def spread(idle: float | None, blocks: int = 512, uneven: float | None = None) -> Spread:
    return Spread(idle, idle if uneven is None else uneven, blocks, 132, 1.0)


def named(found: Diagnosis | None) -> tuple[Bottleneck, str] | None:
    return None if found is None else (found.bottleneck, found.evidence[0].counter)


@pytest.mark.parametrize(
    ("busy", "idle", "expected"),
    [
        (units(82.3, 21.4, 47.6, 16.4), 3.0, Bottleneck.TENSOR),
        (units(0.0, 85.5, 51.0, 23.6), 3.0, Bottleneck.DRAM),
        (units(10.0, 40.0, 75.0, 20.0), 3.0, Bottleneck.L2),
        (units(0.0, 30.0, 20.0, 90.0), 3.0, Bottleneck.PIPE),
        (units(0.0, 30.0, 20.0, 12.0, shared=95.0), 3.0, Bottleneck.SHARED),
        (units(60.0, 59.9, 0.0, 0.0), None, Bottleneck.TENSOR),
        (units(59.9, 10.0, 0.0, 0.0), 3.0, Bottleneck.LATENCY),
        (units(30.0, 10.0, 0.0, 0.0), 25.0, Bottleneck.TAIL),
        (units(70.0, 10.0, 0.0, 0.0), 40.0, Bottleneck.TENSOR),
        (units(dram=20.0), None, Bottleneck.LATENCY),
    ],
)
def test_a_kernel(busy: list[Unit], idle: float | None, expected: Bottleneck) -> None:
    found = kernel_diagnosis(busy, None, spread(idle), 12.4)
    assert found is not None and found.bottleneck is expected


def test_what_the_counters_do_not_tell_is_not_named() -> None:
    assert kernel_diagnosis(units(shared=None), 90.0, spread(50.0), 10.0) is None
    assert kernel_diagnosis(units(dram=21.3), 82.2, spread(3.0), 12.4) is None, (
        "the SM is busy, and nobody knows with what"
    )


def test_latency_is_told_with_the_busiest_unit_and_the_occupancy() -> None:
    found = kernel_diagnosis(units(47.5, 9.6, 30.0, 10.0), None, spread(2.0), 12.4)
    assert found == Diagnosis(
        Bottleneck.LATENCY,
        (Evidence("tensor core", 47.5, 60.0, below=True), Evidence(metrics.OCCUPANCY, 12.4)),
    )


def test_units_that_nobody_looked_at_are_not_said_to_be_idle() -> None:
    found = kernel_diagnosis(units(47.5, 9.6), None, spread(2.0), None)
    assert named(found) == (Bottleneck.LATENCY, LOOKED_AT + "tensor core")


def test_idle_multiprocessors_are_a_tail_where_each_had_a_block() -> None:
    found = kernel_diagnosis(units(30.0, 10.0, 0.0, 0.0), None, spread(40.0, blocks=132), None)
    assert found is not None
    assert (found.bottleneck, found.evidence[0]) == (Bottleneck.TAIL, Evidence(IDLE, 40.0, 25.0))
    below = kernel_diagnosis(units(30.0, 10.0, 0.0, 0.0), None, spread(24.9, blocks=132), None)
    assert named(below) == (Bottleneck.LATENCY, "tensor core")
    of_unknown_shape = kernel_diagnosis(units(30.0), None, Spread(40.0, 40.0), None)
    assert named(of_unknown_shape) == (Bottleneck.LATENCY, IDLE)


def test_fewer_blocks_than_multiprocessors_are_no_tail_and_are_counted() -> None:
    found = kernel_diagnosis(units(3.0, 10.0, 0.0, 0.0), None, spread(97.0, blocks=4), 12.4)
    assert named(found) == (Bottleneck.LATENCY, f"4 blocks for 132 SMs: {IDLE}")


def test_a_short_kernel_in_which_all_multiprocessors_wait_alike_has_no_tail() -> None:
    found = kernel_diagnosis(units(3.0, 10.0, 0.0, 0.0), None, spread(40.0, uneven=5.0), None)
    assert found is not None and found.bottleneck is Bottleneck.LATENCY
    assert found.evidence[0].counter.startswith("all alike") and found.evidence[0].percent == 40.0


def kernel(share: float, bottleneck: Bottleneck | None) -> KernelProfile:
    diagnosis = None if bottleneck is None else Diagnosis(bottleneck, ())
    return KernelProfile("k", 1, 100 * share, share, (), (), diagnosis=diagnosis)


def test_a_call_is_bounded_by_what_bounds_most_of_its_time() -> None:
    kernels = [kernel(0.4, Bottleneck.TENSOR), kernel(0.35, Bottleneck.DRAM), kernel(0.25, Bottleneck.DRAM)]
    found = call_diagnosis(kernels, 100.0, None)
    assert found is not None and found.bottleneck is Bottleneck.DRAM
    assert found.evidence[0].percent == pytest.approx(60.0)
    assert call_diagnosis([kernel(0.7, None), kernel(0.3, Bottleneck.DRAM)], 100.0, None) is None


def test_launches_bound_a_call_whose_kernels_fill_too_little_of_it() -> None:
    kernels = [kernel(1.0, Bottleneck.DRAM)]
    slow = call_diagnosis(kernels, 100.0, 400.0)
    assert slow == Diagnosis(Bottleneck.LAUNCH, (Evidence(GAP, 75.0, 25.0),))
    full = call_diagnosis(kernels, 100.0, 95.0)
    assert full is not None and full.bottleneck is Bottleneck.DRAM
    assert full.evidence[1] == Evidence(GAP, 0.0, 25.0, below=True)


def test_a_matrix_product_recorded_on_an_h200_is_bounded_by_its_tensor_cores() -> None:
    profile = digest(read_launches(RAW), "large", "ncu", wish=ProfileWish(call_ms=0.42))
    (product,) = profile.kernels
    assert named(product.diagnosis) == (Bottleneck.TENSOR, metrics.TENSOR)
    assert product.diagnosis is not None and product.diagnosis.evidence[0].percent == pytest.approx(82.2, abs=0.1)
    assert product.l2_percent == pytest.approx(47.7, abs=0.2)
    assert product.waves == pytest.approx(3.88)
    assert (product.pipe, product.pipe_percent) == ("issue of instructions", pytest.approx(16.4, abs=0.1))
    assert profile.diagnosis is not None and profile.diagnosis.bottleneck is Bottleneck.TENSOR
    assert profile.call_us == pytest.approx(420.0)


def test_the_light_set_alone_names_the_same_bottleneck() -> None:
    light = [
        Launch(item.name, item.grid, item.block, item.ranges, {n: item.values.get(n) for n in metrics.LIGHT})
        for item in read_launches(RAW)
    ]
    (product,) = digest(light, "large", "ncu").kernels
    assert named(product.diagnosis) == (Bottleneck.TENSOR, metrics.TENSOR)
    assert product.l2_percent == pytest.approx(46.3, abs=0.1), "what the SMs draw, as L2's throughput has it"
    assert product.shared_percent == pytest.approx(55.9, abs=0.1)


def launched(grid: int, active: float, most: float, **values: float) -> Launch:
    """A launch of 10,000 cycles on 132 multiprocessors; `active` of them with a warp in the mean, `most` at most."""
    told = {metrics.DURATION: 5000.0, metrics.DRAM: 12.0, metrics.MULTIPROCESSORS: 132.0, **values}
    told |= {metrics.SM_ACTIVE: active, metrics.SM_ACTIVE_MOST: most, metrics.SM_ELAPSED: 10_000.0}
    return Launch("k", (grid, 1, 1), (128,), None, told)


def test_idle_multiprocessors_are_counted_and_not_told_from_the_launch() -> None:
    """140 blocks of which eight fit on an SM all run at once; 132 of unequal length are a tail."""
    (even,) = digest([launched(140, 9_500.0, 9_900.0, **{metrics.WAVES: 0.13})], "w", "ncu").kernels
    assert even.diagnosis is not None and even.diagnosis.bottleneck is Bottleneck.LATENCY
    assert not any(IDLE in evidence.counter for evidence in even.diagnosis.evidence)
    (uneven,) = digest([launched(132, 6_000.0, 9_900.0)], "w", "ncu").kernels
    assert uneven.diagnosis is not None
    assert uneven.diagnosis.evidence[0] == Evidence(IDLE, pytest.approx(40.0), 25.0)


def test_a_page_that_does_not_tell_the_tensor_cores_names_nothing() -> None:
    (product,) = digest(read_launches((CASES / "details_h200.csv").read_text()), "large", "ncu").kernels
    assert product.diagnosis is None


def test_few_blocks_leave_most_multiprocessors_idle() -> None:
    (few,) = digest([launched(8, 500.0, 9_800.0)], "w", "ncu").kernels
    assert named(few.diagnosis) == (Bottleneck.LATENCY, f"8 blocks for 132 SMs: {IDLE}")
