"""Layout of tables, and that an unknown value is never a number."""

from __future__ import annotations

import pytest

from d2k_agent.reports.tables import count, milliseconds, number, seconds, size, table


def test_columns_line_up_and_numbers_stand_right() -> None:
    text = table(("name", "turns"), [("a", "7"), ("longer", "350")], ("turns",))
    assert text.splitlines() == ["name    turns", "a           7", "longer    350"]


@pytest.mark.parametrize("form", [count, number, milliseconds, seconds, size])
def test_unknown_prints_as_unknown(form: object) -> None:
    assert form(None) == "unknown"  # type: ignore[operator]


def test_zero_is_a_number() -> None:
    assert count(0) == "0" and size(0) == "0 B" and number(0.0) == "0"


@pytest.mark.parametrize(
    ("value", "text"), [(1023, "1023 B"), (1024, "1.0 KiB"), (5 << 20, "5.0 MiB"), (3 << 40, "3072.0 GiB")]
)
def test_sizes(value: int, text: str) -> None:
    assert size(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.04, "0.0 s"), (59.94, "59.9 s"), (60, "1 min 00 s"), (125.4, "2 min 05 s")]
)
def test_durations(value: float, text: str) -> None:
    assert seconds(value) == text
