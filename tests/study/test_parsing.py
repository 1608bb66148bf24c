"""The textual form of a stopping policy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from d2k_agent.errors import UsageError
from d2k_agent.study import DEFAULT_POLICIES, Gain, Headroom, Plateau, Policy, parse_policy

ANY_POLICY = st.one_of(
    st.builds(Headroom, factor=st.floats(1, 1000)),
    st.builds(Plateau, turns=st.integers(1, 500), percent=st.floats(0, 100)),
    st.builds(Gain, percent_per_usd=st.floats(1e-6, 1e6), percent_per_mtok=st.none() | st.floats(1e-6, 1e6)),
)


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("headroom", Headroom(1.2)),
        ("headroom:factor=1.5", Headroom(1.5)),
        ("plateau:percent=0", Plateau(20, 0.0)),
        ("plateau:turns=5,percent=0.5", Plateau(5, 0.5)),
        ("gain:percent-per-usd=0.5", Gain(0.5, None, 20)),
        ("gain:percent-per-mtok=2, turns=7", Gain(None, 2.0, 7)),
    ],
)
def test_a_text_is_a_policy(text: str, policy: Policy) -> None:
    assert parse_policy(text) == policy


@given(ANY_POLICY)
def test_a_policy_reads_its_own_text(policy: Policy) -> None:
    assert parse_policy(policy.text) == policy


def test_the_default_policies_are_told_as_they_are_written() -> None:
    assert [parse_policy(text).text for text in DEFAULT_POLICIES] == list(DEFAULT_POLICIES)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "there is no policy ''"),
        ("plato:turns=3", "there is no policy 'plato'"),
        ("plateau:turn=3", "plateau has no option 'turn' but turns, percent"),
        ("plateau:turns", "'turns' is no option with a value"),
        ("plateau:turns=3,", "'' is no option with a value"),
        ("plateau:turns=3,turns=4", "turns is given twice"),
        ("plateau:turns=0", "turns must be a whole number from 1 to 1000000, not '0'"),
        ("plateau:turns=1.5", "turns must be a whole number"),
        ("plateau:turns=²", "turns must be a whole number"),
        ("plateau:percent=-1", "percent must be a number of at least 0, not '-1'"),
        ("plateau:percent=nan", "percent must be a number of at least 0"),
        ("headroom:factor=0.9", "factor must be a number of at least 1, not '0.9'"),
        ("headroom:factor=inf", "factor must be a number of at least 1"),
        ("headroom:factor=one", "factor must be a number of at least 1, not 'one'"),
        ("gain", "gain needs percent-per-usd or percent-per-mtok"),
        ("gain:turns=3", "gain needs percent-per-usd or percent-per-mtok"),
        ("gain:percent-per-usd=0", "percent-per-usd must be a number above 0, not '0'"),
    ],
)
def test_what_is_no_policy_is_refused_with_those_that_there_are(text: str, words: str) -> None:
    with pytest.raises(UsageError) as refusal:
        parse_policy(text)
    told = str(refusal.value)
    assert words in told and "give headroom:factor=1.2, plateau:turns=20,percent=1 or gain:percent-per-usd=" in told
