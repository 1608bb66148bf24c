"""The findings of `doctor`: what blocks, what only limits."""

from __future__ import annotations

import pytest

from d2k_agent.reports.health import Finding, can_solve, health_data, health_text

OK = Finding("python", "ok", "3.11.7")
LIMITED = Finding("GPU", "limited", "none", "a selection needs one")
MISSING = Finding("isolation", "missing", "none works", "use a kernel with Landlock")


def test_a_limitation_does_not_block_and_a_missing_thing_does() -> None:
    assert can_solve([OK, LIMITED])
    assert not can_solve([OK, LIMITED, MISSING])


def test_the_text_gives_each_advice_and_sums_up() -> None:
    text = health_text([OK, LIMITED, MISSING])
    assert "-> a selection needs one" in text
    assert text.endswith("solve cannot run here: isolation missing; the arrows say what to do.")
    assert health_text([OK]).endswith("solve can run here.")


def test_what_is_missing_needs_an_advice() -> None:
    with pytest.raises(ValueError, match="say what to do"):
        Finding("torch", "missing", "not importable")


def test_data_for_scripts() -> None:
    data = health_data([OK, MISSING])
    assert data["can_solve"] is False
    assert data["findings"][0] == {"name": "python", "state": "ok", "value": "3.11.7", "advice": None}
