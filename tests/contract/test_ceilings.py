"""Ceilings and floors, against values reckoned by hand."""

from __future__ import annotations

import json

import pytest

from d2k_agent.contract.ceilings import Ceiling, Ceilings, Floor, Provenance, Work, above_data_sheet, floor_of
from d2k_agent.contract.data_sheets import DATA_SHEETS, MEASURED, at_highest_clock, ceilings_of, data_sheet
from d2k_agent.contract.gpu import is_target
from d2k_agent.contract.rotation import staying_bytes
from d2k_agent.contract.wire import from_data, to_data

SHEET = Provenance("data sheet", "a page")
MEASURED_HERE = Provenance("measured", "a copy", date="2026-11-30")


def ceilings(**values: Ceiling) -> Ceilings:
    return Ceilings("NVIDIA H200", **values)  # type: ignore[arg-type]


def printed(value: float) -> Ceiling:
    return Ceiling(value, SHEET)


def test_peaks_are_those_of_dense_products() -> None:
    h200, b200 = data_sheet("NVIDIA H200"), data_sheet("NVIDIA B200")
    assert h200 is not None and b200 is not None
    for gpu, half, eighth, gb_s in ((h200, 989.4, 1978.9, 4800), (b200, 2250, 4500, 8000)):
        assert [ceiling.value for ceiling in (gpu.fp16_tflops, gpu.bf16_tflops) if ceiling] == [half, half]
        assert gpu.fp8_tflops and gpu.fp8_tflops.value == eighth
        assert gpu.copy_gb_s and gpu.copy_gb_s.value == gb_s
    # 132 multiprocessors, 1,024 multiplications with addition a clock in each of 4 units, at the boost clock.
    assert h200.fp16_tflops and h200.fp16_tflops.value == pytest.approx(132 * 4 * 512 * 2 * 1.83e9 / 1e12, rel=1e-3)


def test_every_number_says_where_it_comes_from() -> None:
    for gpu in (*DATA_SHEETS, *MEASURED):
        assert any(is_target(gpu.device_name, target) for target in ("h100", "h200", "b200"))
        for ceiling in vars(gpu).values():
            if isinstance(ceiling, Ceiling):
                assert ceiling.provenance.source
                assert (ceiling.provenance.basis == "measured") == (gpu in MEASURED) == bool(ceiling.provenance.date)


def test_what_is_measured_goes_before_the_data_sheet_value_by_value() -> None:
    mine = ceilings(copy_gb_s=Ceiling(4000.0, MEASURED_HERE))
    best = ceilings_of("NVIDIA H200", mine)
    assert best is not None and best.copy_gb_s == mine.copy_gb_s
    assert best.fp16_tflops and best.fp16_tflops.provenance.basis == "measured"  # as it ships
    assert best.launch_us and best.launch_us.provenance.basis == "measured"
    other = ceilings_of("NVIDIA B200")
    assert other is not None and other.launch_us is None, "nothing is taken over from another GPU"
    assert other.fp8_tflops and other.fp8_tflops.provenance.basis == "data sheet"
    assert ceilings_of("GeForce") is None


def test_a_floor_is_the_longest_of_what_bounds_it() -> None:
    known = ceilings(fp16_tflops=printed(1000.0), fp8_tflops=printed(2000.0), copy_gb_s=printed(5000.0))
    assert floor_of(Work({"fp16": 2e12}, 5e9), known) == Floor(pytest.approx(2.0), "products", "data sheet")
    assert floor_of(Work({"fp16": 1e12, "fp8": 1e12}, 5e9), known) == Floor(
        pytest.approx(1.5), "products", "data sheet"
    )
    assert floor_of(Work({"fp16": 2e11}, 5e9), known) == Floor(pytest.approx(1.0), "memory", "data sheet")


def test_products_go_with_the_clock_and_nothing_else_does() -> None:
    for sheet in DATA_SHEETS:
        highest = at_highest_clock(sheet)
        assert sheet.fp16_tflops and highest.fp16_tflops
        assert 1.05 < highest.fp16_tflops.value / sheet.fp16_tflops.value < 1.09
        assert (highest.copy_gb_s, highest.link_gb_s) == (sheet.copy_gb_s, sheet.link_gb_s)
    unlisted = Ceilings("another GPU", fp16_tflops=printed(1000.0))
    assert at_highest_clock(unlisted) == unlisted


def test_a_ceiling_that_nobody_knows_makes_no_floor() -> None:
    known = ceilings(fp16_tflops=printed(1000.0), copy_gb_s=printed(5000.0))
    assert floor_of(Work({"fp8": 1.0}, 5e9), known) is None
    assert floor_of(Work(link_bytes=1.0), known) is None
    assert floor_of(Work(), known) is None
    assert floor_of(Work({"fp8": 0.0}, 5e9), known) is not None  # no such product, none is needed


def test_a_call_is_one_launch_at_least() -> None:
    known = ceilings(copy_gb_s=printed(5000.0), launch_us=Ceiling(1.2, MEASURED_HERE))
    assert floor_of(Work(memory_bytes=5e3), known) == Floor(pytest.approx(0.0012), "launch", "measured")


def test_what_stays_in_the_cache_passes_no_memory() -> None:
    known = ceilings(copy_gb_s=printed(5000.0))
    cache = 60e6
    assert staying_bytes(int(cache), 24) == 2.5e6
    assert staying_bytes(int(cache), 24, in_place=True) == 5e6
    assert floor_of(Work(memory_bytes=17.5e6), known, 2.5e6) == Floor(pytest.approx(0.003), "memory", "data sheet")
    # 24 sets of 2 MB fit: nothing passes memory, and nothing is bounded.
    assert floor_of(Work(memory_bytes=2e6), known, staying_bytes(int(cache), 24)) is None


def test_a_measurement_above_the_data_sheet_is_told() -> None:
    sheet = ceilings(copy_gb_s=printed(4800.0), fp16_tflops=printed(1000.0), launch_us=printed(1.0))
    mine = ceilings(
        copy_gb_s=Ceiling(4300.0, MEASURED_HERE),
        fp16_tflops=Ceiling(700.0, MEASURED_HERE, burst=1100.0),
        launch_us=Ceiling(2.0, MEASURED_HERE),
    )
    assert above_data_sheet(mine, sheet) == {"fp16_tflops": pytest.approx(1.1)}


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_no_ceiling_is_nothing_or_without_end(value: float) -> None:
    with pytest.raises(ValueError, match="finite number above 0"):
        Ceiling(value, SHEET)
    if value:
        with pytest.raises(ValueError, match="finite numbers of at least 0"):
            Work(memory_bytes=value)


def test_a_class_of_products_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="fp16, bf16, fp8"):
        floor_of(Work({"fp64": 1.0}), ceilings())


def test_they_are_written_and_read_again() -> None:
    for gpu in (*DATA_SHEETS, *MEASURED):
        assert from_data(Ceilings, json.loads(json.dumps(to_data(gpu)))) == gpu
