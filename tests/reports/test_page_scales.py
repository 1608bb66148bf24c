"""Axes: values fall where they belong, and what stands beside an axis is round and fits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from d2k_agent.reports.page.scales import Scale, short


@given(st.floats(1e-6, 1e12), st.integers(2, 10))
def test_ticks_of_a_scale_from_zero_are_evenly_spaced_within_it_and_not_too_many(high: float, most: int) -> None:
    ticks = Scale(0.0, high, 0, 100).ticks(most)
    assert 1 <= len(ticks) <= most and ticks[0] == 0.0
    assert all(0 <= tick <= high * (1 + 1e-6) for tick in ticks)


@given(st.floats(1e-3, 1.0), st.floats(1.0, 1e4))
def test_ticks_of_a_logarithmic_scale_are_one_two_and_five(low: float, high: float) -> None:
    scale = Scale(low / 2, high * 2, 100, 0, logarithmic=True)
    ticks = scale.ticks(8)
    assert ticks and all(f"{tick:.0e}"[0] in "125" for tick in ticks)
    places = [scale.place(tick) for tick in ticks]
    assert places == sorted(places, reverse=True) and 0 <= places[-1] <= places[0] <= 100


def test_a_logarithmic_scale_gives_equal_ratios_equal_room() -> None:
    scale = Scale(0.1, 10.0, 100, 0, logarithmic=True)
    assert [scale.place(value) for value in (0.1, 1.0, 10.0)] == [100, 50, 0]


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.2, "0.2"), (100, "100"), (20_000, "20k"), (1.5e6, "1.5M"), (2e9, "2G")]
)
def test_numbers_at_an_axis_are_short(value: float, text: str) -> None:
    assert short(value) == text
