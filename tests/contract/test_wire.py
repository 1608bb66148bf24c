"""Data from a process that may be hostile becomes a value of the contract, or a WireError."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from d2k_agent.contract.wire import WireError, from_data, to_data


@dataclass(frozen=True)
class Point:
    """A value of the kinds that the contract uses."""

    x: float
    name: str | None = None
    others: tuple[float, ...] = ()


def test_a_value_comes_back() -> None:
    point = Point(1.5, "a", (2.0, 3.0))
    assert from_data(Point, to_data(point)) == point


def test_a_whole_number_is_a_float() -> None:
    assert from_data(Point, {"x": 3}) == Point(3.0)


@pytest.mark.parametrize(
    "data",
    [
        {},
        [],
        None,
        {"x": None},
        {"x": "1"},
        {"x": True},
        {"x": 10**400},
        {"x": 1, "others": [10**400]},
        {"x": 1, "y": 2},
    ],
)
def test_what_does_not_fit_is_a_wire_error(data: object) -> None:
    with pytest.raises(WireError):
        from_data(Point, data)
