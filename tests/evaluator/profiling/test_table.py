"""The profiler's output, read."""

from __future__ import annotations

import json

import pytest

from d2k_agent.evaluator.profiling.table import in_range, kernel_function, number, read_launches
from tests.evaluator.profiling.fakes import CASES, RAW, table


def test_units_separators_and_the_programs_own_lines_are_told_apart() -> None:
    """Case D03a."""
    expected = json.loads((CASES / "D03_expected.json").read_text())["D03a"]
    labels = {
        "duration_ns": "Duration",
        "dram_pct": "DRAM Throughput",
        "memory_bytes_per_s": "Memory Throughput",
        "grid": "Grid Size",
        "dyn_smem_bytes": "Dynamic Shared Memory Per Block",
        "occupancy": "Achieved Occupancy",
    }
    launches = read_launches((CASES / "D03a_details_scaled.csv").read_text())
    assert [launch.name for launch in launches] == ["_axpby_bmm", "_normalise"]
    for launch, values in zip(launches, (expected["0"], expected["1"]), strict=True):
        found = {name: launch.values[labels[name]] for name in values}
        assert found == {name: value if value is None else pytest.approx(value) for name, value in values.items()}
    assert (launches[0].grid, launches[0].block) == ((64, 172, 32), (256, 1, 1))


def test_the_raw_page_of_an_h200() -> None:
    first, second = read_launches(RAW)
    assert (first.name, first.grid, first.block) == ("mm", (32, 16, 1), (256, 1, 1))
    assert (first.values["gpu__time_duration.sum"], second.values["gpu__time_duration.sum"]) == (196704, 196832)
    assert first.values["dram__bytes.sum.per_second"] == pytest.approx(1.0290326988775e12)
    assert first.values["launch__func_cache_config"] is None


def test_the_details_page_of_an_h200() -> None:
    launches = read_launches((CASES / "details_h200.csv").read_text())
    assert [launch.values["Duration"] for launch in launches] == [197120, 197184]


def test_launches_are_taken_by_their_range() -> None:
    launches = read_launches(table("d2k_ready", "d2k_run"))
    assert len(launches) == 2  # the ids of one process are its launches: the same id again says nothing new
    ranges = RAW.replace('"0","503"', '"0","502"').replace(":candidate:", ":other:", 1)
    assert [launch.name for launch in in_range(read_launches(ranges), "candidate")] == ["mm"]
    assert in_range(read_launches(RAW), "cand") == []


@pytest.mark.parametrize(
    ("cell", "unit", "value"),
    [
        ("1,234.56", "us", 1234560.0),
        ("1.5", "msecond", 1.5e6),
        ("2", "s", 2e9),
        ("65.55", "Kbyte/block", 65550.0),
        ("31.33", "byte/cycle", 31.33),
        ("82.27", "%", 82.27),
        ("n/a", "%", None),
        ("nan", "%", None),
        ("inf", "", None),
        ("", "", None),
    ],
)
def test_a_cell_is_a_number_in_its_base_unit_or_unknown(cell: str, unit: str, value: float | None) -> None:
    found = number(cell, unit)
    assert found == (value if value is None else pytest.approx(value))


@pytest.mark.parametrize(
    "text",
    ["", '"ID"', '"ID","Kernel Name"\n"0"', '"0","x"\n', '"ID","a__b"\n"0","1"\n', '"ID","Kernel Name"\n"0","x\n'],
)
def test_what_is_no_table_has_no_launches(text: str) -> None:
    assert read_launches(text) == []


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("_product", "_product"),
        ("void at::fill_kernel<int>(int)", "at::fill_kernel"),
        ("void at::native::(anonymous namespace)::Cat<float, (int)4>(float *, int)", "at::native::Cat"),
        ("void at::native::<unnamed>::Cat<float>(float *)", "at::native::Cat"),
        ("void (anonymous namespace)::softmax<float>(float *)", "softmax"),
    ],
)
def test_a_name_is_told_without_types_and_nameless_namespaces(name: str, function: str) -> None:
    assert kernel_function(name) == function
