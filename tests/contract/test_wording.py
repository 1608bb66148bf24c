"""Numbers of things in words."""

from __future__ import annotations

import pytest

from d2k_agent.contract.wording import counted


@pytest.mark.parametrize(
    ("number", "words", "told"),
    [
        (0, ("turn",), "0 turns"),
        (1, ("turn",), "1 turn"),
        (1200, ("turn",), "1,200 turns"),
        (1, ("reply", "replies"), "1 reply"),
        (2, ("result differs", "results differ"), "2 results differ"),
    ],
)
def test_one_is_no_plural(number: int, words: tuple[str, ...], told: str) -> None:
    assert counted(number, *words) == told
