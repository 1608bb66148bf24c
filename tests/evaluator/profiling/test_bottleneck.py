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
    ],
)
def test_a_kernel(busy: list[Unit], idle: float | None, expected: Bottleneck) -> None:
    found = kernel_diagnosis(busy, None, spread(idle), 12.4)
    assert found is not None and found.bottleneck is expected


def test_what_the_counters_do_not_tell_is_not_named() -> None:
    assert kernel_diagnosis(units(dram=20.0), None, spread(None), 12.4) is None, "tensor cores may be busy"
    assert kernel_diagnosis(units(10.0, 5.0, None, 10.0), None, spread(50.0), 12.4) is None
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
    found = kernel_diagnosis(units(47.5, 9.6, 30.0), None, spread(2.0), None)
    assert named(found) == (Bottleneck.LATENCY, LOOKED_AT + "tensor core")


def test_idle_multiprocessors_are_a_tail_where_each_had_a_block() -> None:
    found = kernel_diagnosis(units(30.0, 10.0, 0.0, 0.0), None, spread(40.0, blocks=132), None)
    assert found is not None
    assert (found.bottleneck, found.evidence[0]) == (Bottleneck.TAIL, Evidence(IDLE, 40.0, 25.0))
    below = kernel_diagnosis(units(30.0, 10.0, 0.0, 0.0), None, spread(24.9, blocks=132), None)
    assert named(below) == (Bottleneck.LATENCY, "tensor core")
    of_unknown_shape = kernel_diagnosis(units(30.0, 10.0, 0.0, 0.0), None, Spread(40.0, 40.0), None)
    assert named(of_unknown_shape) == (Bottleneck.LATENCY, IDLE)


def test_fewer_blocks_than_multiprocessors_are_no_tail_and_are_counted() -> None:
    found = kernel_diagnosis(units(3.0, 10.0, 0.0, 0.0), None, spread(97.0, blocks=4), 12.4)
    assert named(found) == (Bottleneck.LATENCY, f"4 blocks for 132 SMs: {IDLE}")
    near = kernel_diagnosis(units(3.0, 10.0, 0.0, 0.0), None, Spread(66.8, 5.0, 128, 132, 0.1), 12.4)
    assert named(near) == (Bottleneck.LATENCY, f"all alike, a short kernel's begin and end: {IDLE}")


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
    assert slow == Diagnosis(Bottleneck.LAUNCH, (Evidence(GAP, 75.0, 50.0),))
    assert call_diagnosis(kernels, 70.0, 100.0, same_clock=True) == Diagnosis(
        Bottleneck.LAUNCH, (Evidence(GAP, pytest.approx(30.0), 25.0),)
    )
    for filled_us, same_clock in ((100.0, False), (70.0, False), (95.0, True), (105.0, True)):
        full = call_diagnosis(kernels, filled_us, 100.0, same_clock)
        assert full is not None and full.bottleneck is Bottleneck.DRAM
        assert len(full.evidence) == 1, "what a clock of another pace leaves over is not told as time without kernels"


def test_kernels_fill_a_call_by_their_cycles_at_its_own_clock() -> None:
    """7 us at a clock of a GPU at rest, 10,000 cycles: at 1,000 MHz they are the whole of a call of 10 us."""
    busy = {metrics.TENSOR: 80.0, metrics.L2_SECTORS: 10.0, metrics.SHARED: 10.0, metrics.DURATION: 7_000.0}
    call = [launched(512, 9_900.0, 9_950.0, **busy)]

    def bound(**wish: float) -> Bottleneck | None:
        found = digest(call, "w", "ncu", wish=ProfileWish(**wish)).diagnosis  # type: ignore[arg-type]
        return found.bottleneck if found else None

    assert bound(call_ms=0.01, call_mhz=1000.0) is Bottleneck.TENSOR
    assert bound(call_ms=0.02, call_mhz=1000.0) is Bottleneck.LAUNCH
    assert bound(call_ms=0.01, call_mhz=2000.0) is Bottleneck.LAUNCH, "they took 7 us, whatever their clock"
    assert bound(call_ms=0.01) is Bottleneck.TENSOR, "30 % may be the clock"


def test_a_matrix_product_recorded_on_an_h200_is_bounded_by_its_tensor_cores() -> None:
    profile = digest(read_launches(RAW), "large", "ncu", wish=ProfileWish(call_ms=0.42))
    (product,) = profile.kernels
    assert named(product.diagnosis) == (Bottleneck.TENSOR, metrics.TENSOR)
    assert product.diagnosis is not None and product.diagnosis.evidence[0].percent == pytest.approx(82.2, abs=0.1)
    assert product.l2_percent == pytest.approx(46.3, abs=0.1)
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
    assert product.l2_percent == pytest.approx(46.3, abs=0.1), "as with every section"
    assert product.shared_percent == pytest.approx(55.9, abs=0.1)


def launched(grid: int, active: float, most: float, **values: float) -> Launch:
    """A launch of 10,000 cycles on 132 multiprocessors; `active` of them with a warp in the mean, `most` at most."""
    told = {metrics.DURATION: 5000.0, metrics.DRAM: 12.0, metrics.MULTIPROCESSORS: 132.0}
    told |= {metrics.TENSOR: 0.0, metrics.L2_SECTORS: 10.0, metrics.SHARED: 5.0, **values}
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


def test_a_section_changes_no_class() -> None:
    """As recorded on an H200: L2's throughput, which a section asks for, holds the traffic to DRAM as well."""
    call = [launched(4096, 9_900.0, 9_950.0, **{metrics.DRAM: 88.3, metrics.L2_SECTORS: 43.8})]
    cold = [launched(4096, 9_900.0, 9_950.0, **{metrics.DRAM: 95.0, metrics.L2: 92.3, metrics.TENSOR: 97.0})]
    (light,) = digest(call, "w", "ncu").kernels
    (deep,) = digest(call, "w", "ncu", deeper=cold, wish=ProfileWish(("memory",))).kernels
    assert deep.diagnosis == light.diagnosis
    assert named(light.diagnosis) == (Bottleneck.DRAM, metrics.DRAM)
    assert deep.l2_percent == light.l2_percent == 43.8
    assert deep.counters[metrics.L2] == 92.3


def test_shapes_that_are_not_bounded_alike_are_rows_of_their_own() -> None:
    """One function, three products: of means over them no class is true."""
    large = launched(1002, 9_900.0, 9_950.0, **{metrics.DRAM: 63.1, metrics.TENSOR: 26.7})
    small = launched(512, 9_900.0, 9_950.0, **{metrics.DRAM: 20.0, metrics.TENSOR: 67.6})
    profile = digest([large, small, small], "w", "ncu")
    rows = {
        kernel.title: (kernel.launches, kernel.diagnosis and kernel.diagnosis.bottleneck) for kernel in profile.kernels
    }
    assert rows == {"k[512x1x1]": (2, Bottleneck.TENSOR), "k[1002x1x1]": (1, Bottleneck.DRAM)}
    assert profile.notes == ()
    assert sum(kernel.share for kernel in profile.kernels) == pytest.approx(1.0)
    alike = digest([small, launched(256, 9_900.0, 9_950.0, **{metrics.DRAM: 20.0, metrics.TENSOR: 76.5})], "w", "ncu")
    (row,) = alike.kernels
    assert (row.title, row.launches) == ("k", 2)
    assert alike.notes == ("launches of several shapes are one row, percentages their means: k (2)",)
