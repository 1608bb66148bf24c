"""Numbers of things in words."""

from __future__ import annotations

import pytest

from d2k_agent.contract.wording import apart, counted


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


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("one line", "one line"),
        ("spoof\nb200: fine\n\nb300: fine", "spoof\n  b200: fine\n\n  b300: fine"),
        ("spoof\rb200: fine\u2028b300: fine\x0bmore\r\n", "spoof\n  b200: fine\n  b300: fine\n  more"),
        ("line 70\n   70 | k\n        ^", "line 70\n   70 | k\n        ^"),
        ("line 1000\n 1000 | k\n        ^", "line 1000\n   1000 | k\n          ^"),
        ("", ""),
    ],
)
def test_no_further_line_of_somebodys_text_begins_where_ours_begin(text: str, told: str) -> None:
    assert apart(text) == told == apart(told)
    assert apart({text: [text, {"of": text}, 7, None]}) == {told: [told, {"of": told}, 7, None]}
