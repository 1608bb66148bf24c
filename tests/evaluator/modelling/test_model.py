"""The pure parts of a modelled latency: samples, the roofline, and what its types refuse."""

from __future__ import annotations

import dataclasses
import random

import pytest

pytest.importorskip("torch")

from d2k_agent.contract.data_sheets import ceilings_of
from d2k_agent.contract.gpu import device_name
from d2k_agent.contract.modelled import ModelledLatency, ModelledLaunch, ModelledWorkload
from d2k_agent.evaluator.compilation.targets import TARGETS
from d2k_agent.evaluator.modelling.counting import Meter, Reduction, Tally
from d2k_agent.evaluator.modelling.roofline import Machine, machine_of, model_launch
from d2k_agent.evaluator.modelling.sampling import Choice, choose_programs, choose_trips

H200 = machine_of(TARGETS["h200"])
KNOWN = ceilings_of(device_name("h200"))
assert KNOWN is not None and KNOWN.fp16_tflops is not None
RATE = KNOWN.fp16_tflops.value * 1e9
"""Operations a millisecond."""


@pytest.mark.parametrize("grid", [(1, 1, 1), (8, 1, 1), (9, 1, 1), (64, 3, 1), (7, 5, 40000)])
def test_a_sample_stands_for_the_whole_grid(grid: tuple[int, int, int]) -> None:
    choice = choose_programs(grid, random.Random(1))
    places = choice.programs
    assert len(set(places)) == len(places) <= 8
    assert all(0 <= at < size for place in places for at, size in zip(place, grid, strict=True))
    assert (0, 0, 0) in places and tuple(size - 1 for size in grid) in places
    assert choice.total([1.0] * len(places)) == grid[0] * grid[1] * grid[2]
    assert choice.whole == (grid[0] * grid[1] * grid[2] <= 8)


@pytest.mark.parametrize(("branched", "most"), [(False, 8), (True, 26)])
@pytest.mark.parametrize("count", [0, 1, 8, 9, 26, 27, 1000])
def test_trips_stand_for_the_whole_loop(count: int, branched: bool, most: int) -> None:
    trips = choose_trips(count, random.Random(1), branched)
    assert sum(weight for _, weight in trips) == pytest.approx(count)
    assert [trip for trip, _ in trips] == sorted({trip for trip, _ in trips}) and len(trips) <= most
    assert not count or (trips[0][0], trips[-1][0]) == (0, count - 1)


def tally(flops: float = 0.0, *, by_pointer: bool = False, loaded: float = 0.0, single: float = 0.0) -> Tally:
    counted = Tally(single_accesses=single)
    if flops:
        counted.product_flops["fp16"] = flops
    if by_pointer:
        counted.pointer_fed_flops["fp16"] = flops
    if loaded:
        counted.loaded["x"] = counted.moved["x"] = loaded
    return counted


def modelled(
    programs: int, counted: Tally, nbytes: int = 1 << 40, warps: int = 4, machine: Machine = H200
) -> ModelledLaunch:
    choice = Choice((), ((0, 0, 0), (1, 0, 0)), programs)
    return model_launch("k", (programs,), warps, choice, [counted, counted], {"x": nbytes}, machine)


def beyond_launch_ms(launch: ModelledLaunch) -> float:
    assert launch.ms is not None
    return launch.ms - H200.launch_ms


def test_the_slowest_resource_decides() -> None:
    products = modelled(132, tally(RATE / 132))
    assert (products.bound, beyond_launch_ms(products)) == ("products", pytest.approx(1.0))
    assert beyond_launch_ms(modelled(132, tally(RATE / 132, by_pointer=True))) == pytest.approx(665 / 505)
    memory = modelled(1320, tally(1e8, loaded=4.3e9 / 1320))
    assert (memory.bound, beyond_launch_ms(memory)) == ("memory", pytest.approx(1.0))
    again = modelled(1320, tally(loaded=4.3e9 / 1320), nbytes=1000)
    assert again.bound == "L2 cache" and again.compulsory_bytes == 1000
    assert (modelled(1, tally()).bound, modelled(1, tally()).ms) == ("launch", H200.launch_ms)


def test_what_all_programs_read_of_a_large_tensor_passes_device_memory_once() -> None:
    def launch(*stretches: tuple[int, int]) -> ModelledLaunch:
        counted = [dataclasses.replace(tally(loaded=1e6), reached={"x": stretch}) for stretch in stretches]
        choice = Choice((), ((0, 0, 0), (1, 0, 0)), 1320)
        return model_launch("k", (1320,), 4, choice, counted, {"x": 1 << 40}, H200)

    shared = launch((0, 999_999), (0, 999_999))
    assert (shared.bound, shared.compulsory_bytes) == ("L2 cache", 1e6)
    assert launch((0, 999_999), (400_000, 1_399_999)).compulsory_bytes == 1.4e6
    dealt_out = launch((0, 999_999), (900_000_000, 900_999_999))
    assert (dealt_out.bound, dealt_out.compulsory_bytes) == ("memory", 1.32e9), "each reads a part of its own"


def test_programs_are_handed_out_whole() -> None:
    flops = RATE / 132
    assert beyond_launch_ms(modelled(133, tally(flops))) == pytest.approx(2.0)
    assert modelled(66, tally(flops)).ms == modelled(132, tally(flops)).ms


@pytest.mark.parametrize(("warps", "programs", "rounds"), [(4, 16, 1), (4, 17, 2), (32, 3, 2), (1, 32, 1), (1, 33, 2)])
def test_a_chain_is_waited_for_once_a_round_of_resident_programs(warps: int, programs: int, rounds: int) -> None:
    launch = modelled(programs * 132, Tally(waiting_clocks=H200.clocks), warps=warps)
    assert (launch.bound, beyond_launch_ms(launch)) == ("latency", pytest.approx(float(rounds)))


def test_integers_have_half_the_rate_of_floats_and_share_what_issues_them() -> None:
    each = 1e9 / 132
    floats, integers = (
        beyond_launch_ms(modelled(132, Tally(arithmetic=f * each, integers=i * each))) for f, i in ((1, 0), (0, 1))
    )
    assert integers == pytest.approx(2 * floats)
    both = modelled(132, Tally(arithmetic=3 * each, integers=each))
    assert (both.bound, beyond_launch_ms(both)) == ("instructions", pytest.approx(4 * floats))


def test_a_program_of_few_warps_cannot_use_a_whole_multiprocessor() -> None:
    alone = modelled(16 * 132, Tally(arithmetic=1.0, issue_clocks=H200.clocks), warps=1)
    assert (alone.bound, beyond_launch_ms(alone)) == ("latency", pytest.approx(1.0))


def test_waiting_comes_on_top_of_work() -> None:
    busy = Tally(arithmetic=1e9 / 132)
    both = beyond_launch_ms(modelled(132, dataclasses.replace(busy, waiting_clocks=H200.clocks)))
    assert both == pytest.approx(1.0 + beyond_launch_ms(modelled(132, busy)))


def timed() -> Meter:
    meter = Meter()
    meter.begin_program(random.Random(0))
    meter.warps = 4
    return meter


def test_an_instruction_waits_for_its_operands_and_for_the_ones_before_it() -> None:
    meter = timed()
    first = meter.access("x", 128, 4, 16, (0, 511), 0.0, store=False, single=False)
    other = meter.access("x", 128, 4, 16, (0, 511), 0.0, store=False, single=False)
    assert 479 < first < other < 2 * 479, "loads that do not need each other are under way at once"
    sums = meter.floats(128, max(first, other))
    assert meter.tally.waiting_clocks == pytest.approx(other - 2), "two loads, of a clock each to issue"
    assert sums == pytest.approx(other + 4)
    again = meter.access("x", 128, 4, 16, (0, 511), sums, store=False, single=False)
    assert again > 2 * 479, "a load whose address rests on a load comes behind it"


def test_trips_that_stand_for_others_are_waited_for_as_often() -> None:
    meter = timed()
    meter.weight = 10.0
    meter.floats(128, 7.0)
    assert meter.tally.waiting_clocks == pytest.approx(70.0)
    with meter.paused():
        meter.floats(1 << 20, 1e9)
    assert meter.tally.waiting_clocks == pytest.approx(70.0)


def test_a_reduction_that_one_instruction_does_is_cheaper_and_small_blocks_take_all_threads() -> None:
    def clocks(values: int, floats: bool, at_once: bool) -> tuple[float, float]:
        meter = timed()
        ready = meter.reduction(Reduction(256, 1, values, floats, at_once), 0.0)
        return ready, meter.tally.exchange_clocks

    plain, once, pair = clocks(1, False, False), clocks(1, False, True), clocks(2, False, False)
    assert plain[1] == 5 * 128 / 32 and once[1] == 128 / 16 and pair[1] == 2 * plain[1]
    assert once[0] < plain[0] < pair[0]


def test_one_by_one_accesses_of_a_product_add_to_it() -> None:
    fast, slow = modelled(132, tally(1e9)), modelled(132, tally(1e9, single=1e8))
    assert (slow.ms or 0) > (fast.ms or 0) and "one by one" in slow.notes[0]
    assert modelled(132, tally(single=1e3)).notes == (), "a kernel without products is bound by its bytes"


def test_an_unknown_kind_of_product_has_no_rate() -> None:
    counted = tally()
    counted.product_flops["fp64"] = 1.0
    launch = modelled(1, counted)
    assert launch.ms is None and launch.why_not == "no rate is known of products of fp64"


def test_a_target_without_ceilings_has_no_model() -> None:
    with pytest.raises(ValueError, match="no ceilings are known of NVIDIA B300 SXM6 AC; choose from b200, h100, h200"):
        machine_of(TARGETS["b300"])


def test_a_target_with_a_data_sheet_alone_sustains_the_share_that_was_measured() -> None:
    h100, b200 = machine_of(TARGETS["h100"]), machine_of(TARGETS["b200"])
    for kind in ("fp16", "bf16", "fp8"):
        assert h100.products[kind] == pytest.approx(H200.products[kind]), "the same multiprocessors, clock and sheet"
    assert h100.memory_bytes == pytest.approx(3352e6 * 4300 / 4800)
    assert b200.memory_bytes == pytest.approx(8000e6 * 4300 / 4800)
    peaks = {"fp16": 2250 * 681 / 989.4, "bf16": 2250 * 678 / 989.4, "fp8": 4500 * 1286 / 1978.9}
    assert {kind: b200.products[kind] * b200.multiprocessors / 1e9 for kind in peaks} == pytest.approx(peaks)
    counted = tally(RATE / 132)
    there, here = modelled(132, counted, machine=h100), modelled(132, counted)
    assert (there.bound, here.bound) == ("products", "products")
    assert beyond_launch_ms(there) == pytest.approx(beyond_launch_ms(here))
    assert beyond_launch_ms(modelled(1320, tally(loaded=4.3e9 / 1320), machine=h100)) > 1.4


def test_every_number_says_where_it_comes_from() -> None:
    products, memory, *_ = H200.basis
    assert f"fp16 {RATE / 1e9:.0f} TFLOP/s (measured)" in products and "4300 GB/s (measured)" in memory
    products, memory, *_ = machine_of(TARGETS["b200"]).basis
    assert "fp16 1549 TFLOP/s (69% of the data sheet's 2250, as an H200 sustained)" in products
    assert "7167 GB/s (90% of the data sheet's 8000, as an H200 sustained)" in memory


def test_impossible_records_are_refused() -> None:
    launch = ModelledLaunch("k", (1,), 1, why_not="no")
    with pytest.raises(ValueError, match="it is modelled, or there is a reason why not"):
        ModelledLaunch("k", (1,), 1)
    with pytest.raises(ValueError, match="positive number of milliseconds"):
        ModelledWorkload("w", 0.0)
    with pytest.raises(ValueError, match="a sum without one of its launches"):
        ModelledWorkload("w", 1.0, (launch,))
    half = ModelledLatency("h200", (ModelledWorkload("a", 2.0), ModelledWorkload("b", None, why_not="no")))
    assert half.geomean_ms is None and ModelledLatency("h200", ()).geomean_ms is None
    assert ModelledLatency("h200", (ModelledWorkload("a", 2.0), ModelledWorkload("b", 8.0))).geomean_ms == 4.0
