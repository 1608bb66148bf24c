"""A loaded machine draws examples and runs them slowly: that is no failure of what is tested."""

from __future__ import annotations

import time

from hypothesis import given, settings
from hypothesis import strategies as st


def slowly(value: bool) -> bool:
    time.sleep(0.6)
    return value


@settings(
    max_examples=2, database=None, deadline=200
)  # a deadline, which drawing has no part in, shortens the patience
@given(st.booleans().map(slowly))
def test_examples_may_be_drawn_slowly(value: bool) -> None:
    assert value in (True, False)


@settings(max_examples=2, database=None)
@given(st.booleans())
def test_a_property_may_be_tried_slowly(value: bool) -> None:
    slowly(value)
