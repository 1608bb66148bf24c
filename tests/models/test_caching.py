"""What a provider's cache holds: marks, lifetimes with their arithmetic, and the cache that is simulated here."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from d2k_agent.models import CachePlan, PriceRow, Rates, Tier, Usage
from d2k_agent.models.cache_simulator import PrefixCache, SimulatedModel
from d2k_agent.models.caching import MARKED, UNDOCUMENTED, CachePlanner, cache_points, cached_by, rules_of
from d2k_agent.models.scripted import ScriptedModel
from d2k_agent.models.ttl import chosen_ttl

RATES = Rates(Decimal(5), Decimal(25), Decimal("6.25"), Decimal(10), Decimal("0.5"))
PRICE = PriceRow("m", "page", None, RATES)
BOTH = (300, 3600)
OPENAI = rules_of("openai", marks=False, own_server=False)
TOOLS: list[dict[str, Any]] = [{"type": "function", "function": {"name": "bash", "description": "word " * 1500}}]
SYSTEM, GO = {"role": "system", "content": "rules"}, {"role": "user", "content": "go"}


def said(number: int) -> dict[str, Any]:
    return {"role": "assistant", "content": f"reply {number}"}


def result(number: int, words: int = 50) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"c{number}", "content": f"result {number} " * words}


def conversation(turns: int) -> list[dict[str, Any]]:
    return [SYSTEM, GO, *(message for turn in range(turns) for message in (said(turn), result(turn)))]


def test_five_minutes_until_a_gap_is_measured() -> None:
    choice = chosen_ttl(BOTH, [], 50_000, 1_000, RATES)
    assert (choice.ttl_s, choice.why) == (300, "5 min: no gap between requests is measured yet")


def test_slow_turns_make_an_hour_cheaper_and_the_sums_are_shown() -> None:
    choice = chosen_ttl(BOTH, [400.0, 30.0, 500.0, 20.0], 80_000, 2_000, RATES)
    five = (2_000 * 6.25 + 80_000 * (0.5 * 6.25 + 0.5 * 0.5)) / 1e6
    hour = (2_000 * 10 + 80_000 * 0.5) / 1e6
    assert choice.ttl_s == 3600
    assert f"5 min 2,000 x 6.25 + 80,000 x (0.50 x 6.25 + 0.50 x 0.5) = {five:.4f}" in choice.why
    assert f"1 h 2,000 x 10 + 80,000 x (0.00 x 10 + 1.00 x 0.5) = {hour:.4f}" in choice.why
    assert "median of 215 s (longer than 5 min: 2, longer than 1 h: 0)" in choice.why and "in US$" in choice.why


@pytest.mark.parametrize("gaps_s", [[20.0] * 10, [5_000.0] * 10])
def test_fast_turns_and_hopelessly_slow_ones_take_five_minutes(gaps_s: list[float]) -> None:
    assert chosen_ttl(BOTH, gaps_s, 80_000, 2_000, RATES).ttl_s == 300


def test_without_prices_the_usual_ratios_decide_and_are_called_so() -> None:
    choice = chosen_ttl(BOTH, [400.0], 80_000, 2_000, None)
    assert choice.ttl_s == 3600 and "uncached tokens' worth" in choice.why and "2,000 x 1.25" in choice.why


def test_one_lifetime_is_no_choice() -> None:
    assert chosen_ttl((300,), [900.0], 80_000, 2_000, RATES).why == ""


def test_a_plan_tells_the_arithmetic_when_its_lifetime_changes_and_not_each_time() -> None:
    planner = CachePlanner(MARKED, PRICE)
    whys = []
    for turn, now in enumerate([0.0, 400.0, 800.0, 1200.0]):
        plan = planner.plan(conversation(turn), now)
        planner.note(Usage(0, 1_000, 50_000 * turn, 5))
        whys.append((plan.ttl_s, bool(plan.why), plan.gap_s))
    assert whys == [(300, True, None), (3600, True, 400.0), (3600, False, 400.0), (3600, False, 400.0)]


def test_what_an_earlier_process_measured_decides_the_first_request_of_the_next() -> None:
    before = CachePlanner(MARKED, PRICE)
    usages = [Usage(0, 1_000, 50_000 + 1_000 * turn, 5) for turn in range(6)]
    for turn, usage in enumerate(usages):
        before.plan(conversation(turn), 400.0 * turn)
        before.note(usage)
    plan = CachePlanner(MARKED, PRICE, [400.0] * 5, usages).plan(conversation(6), 0.0)
    assert (plan.ttl_s, plan.gap_s) == (3600, None) and "56,000 cached and 1,000 new tokens" in plan.why
    assert before.plan(conversation(6), 2400.0).ttl_s == 3600


def test_a_reply_that_nobody_counted_leaves_the_choice_as_it_was() -> None:
    planner = CachePlanner(MARKED, PRICE, [400.0] * 5, [Usage(0, 1_000, 50_000, 5)])
    planner.plan(conversation(1), 0.0)
    planner.note(Usage.unknown())
    plan = planner.plan(conversation(2), 400.0)
    assert (plan.ttl_s, plan.why) == (3600, ""), "nothing changed, so nothing is told"


def test_what_is_not_known_is_told_apart() -> None:
    measured = [400.0] * 5
    assert chosen_ttl(BOTH, measured, None, 0, RATES).why == (
        "5 min: nobody has said yet how much of a request the cache holds"
    )
    assert chosen_ttl(BOTH, measured, 0, 0, RATES).why == "5 min: the cache holds nothing of the last request"
    assert CachePlanner(MARKED, PRICE, measured).plan(conversation(1), 0.0).why.startswith("5 min: nobody has said")


def test_the_prices_of_long_requests_decide_over_those() -> None:
    dear = Rates(Decimal(10), Decimal(50), Decimal("12.5"), Decimal(20), Decimal(1))
    tiered = PriceRow("m", "page", None, RATES, (Tier(200_000, dear),))
    short, long = (
        CachePlanner(MARKED, tiered, [400.0], [Usage(0, 0, many, 5)]).plan(conversation(1), 0.0)
        for many in (200_000, 200_001)
    )
    assert "1.00 x 6.25" in short.why and "1.00 x 12.5" in long.why


def test_marks_end_the_opening_the_request_before_and_this_one() -> None:
    assert cache_points(conversation(3)) == [0, 1, 5, 7]
    assert cache_points(conversation(0)) == [0, 1]


def test_an_entry_is_kept_alive_where_a_change_ended() -> None:
    planner = CachePlanner(MARKED)
    planner.plan(conversation(6), 0.0)
    short = {**result(1), "content": "shortened"}
    once = [message if at != 9 else short for at, message in enumerate(conversation(9))]
    assert planner.plan(once[:16], 1.0).points == (0, 1, 9, 15)
    assert planner.plan(once[:18], 2.0).points == (1, 9, 15, 17)
    twice = [message if at != 13 else short for at, message in enumerate(once)]
    assert planner.plan(twice, 3.0).points == (1, 9, 13, 19), "what was shortened first is read, up to its end"
    assert planner.plan([*twice, said(9), result(9)], 4.0).points == (1, 13, 19, 21)


def test_a_provider_that_caches_by_itself_gets_no_marks() -> None:
    assert CachePlanner(OPENAI).plan(conversation(3), 0.0).points == ()
    assert rules_of("openai", marks=False, own_server=True) is UNDOCUMENTED
    assert rules_of("anthropic", marks=True, own_server=True) is MARKED


def test_what_google_does_not_document_is_expected_in_large_steps() -> None:
    rules = rules_of("gemini", marks=False, own_server=False)
    assert rules_of("vertex_ai", marks=False, own_server=False) is rules
    wanted = plan(False, rules.least_tokens, rules.step_tokens)
    assert [cached_by(wanted, Usage(rest, 0, 0, 5)) for rest in (4_000, 5_000, 6_000)] == [0, 4_096, 5_120]


def plan(marks: bool, least: int = 0, step: int = 1) -> CachePlan:
    return CachePlan(marks=marks, points=(), ttl_s=300, least_tokens=least, step_tokens=step)


@pytest.mark.parametrize(
    ("wanted", "usage", "left"),
    [
        (plan(True), Usage(7, 100, 1000, 5), 1100),
        (plan(True, least=2000), Usage(7, 100, 1000, 5), 0),
        (plan(False, least=1024, step=128), Usage(300, 0, 1024, 5), 1280),
        (plan(False), Usage.unknown(), None),
    ],
)
def test_what_a_request_leaves_in_the_cache(wanted: CachePlan, usage: Usage, left: int | None) -> None:
    assert cached_by(wanted, usage) == left


def serve(rules: Any, turns: list[tuple[list[dict[str, Any]], float]]) -> list[Usage]:
    cache, planner = PrefixCache(rules), CachePlanner(rules)
    return [cache.serve(messages, TOOLS, planner.plan(messages, now), now) for messages, now in turns]


def test_the_simulated_cache_reads_what_was_written_before_and_writes_the_rest() -> None:
    first, second = serve(MARKED, [(conversation(0), 0.0), (conversation(1), 10.0)])
    assert first.cache_read == 0 and first.cache_write and first.cache_write > 1_024 and first.uncached_input == 0
    assert second.cache_read == first.cache_write and second.cache_write and second.cache_write < 200


def test_an_entry_that_is_used_lives_on_and_one_that_is_not_dies() -> None:
    alive = serve(MARKED, [(conversation(turn), 250.0 * turn) for turn in range(4)])
    assert all(usage.cache_read for usage in alive[1:])
    dead = serve(MARKED, [(conversation(0), 0.0), (conversation(1), 301.0)])
    assert dead[1].cache_read == 0


def test_an_hour_is_written_as_such_and_outlives_a_slow_turn() -> None:
    cache = PrefixCache(MARKED)
    hour = CachePlan(marks=True, points=(0, 1), ttl_s=3600)
    written = cache.serve(conversation(0), TOOLS, hour, 0.0)
    assert written.cache_write_1h == written.cache_write
    assert cache.serve(conversation(0), TOOLS, hour, 3000.0).cache_read == written.cache_write


def test_more_results_than_a_lookback_are_found_by_the_mark_of_the_request_before() -> None:
    many = [said(1), *(result(number, 1) for number in range(30))]
    usages = serve(MARKED, [(conversation(1), 0.0), ([*conversation(1), *many], 1.0)])
    assert usages[1].cache_read == (usages[0].cache_write or 0)
    cache = PrefixCache(MARKED)
    cache.serve(conversation(1), TOOLS, CachePlan(True, (3,), 300), 0.0)
    assert cache.serve([*conversation(1), *many], TOOLS, CachePlan(True, (34,), 300), 1.0).cache_read == 0


def test_too_short_a_prefix_is_not_cached() -> None:
    cache = PrefixCache(MARKED)
    usage = cache.serve([GO], [], CachePlan(True, (0,), 300), 0.0)
    assert (usage.cache_write, usage.cache_read) == (0, 0) and usage.uncached_input


def test_a_cache_that_works_by_itself_reads_whole_blocks() -> None:
    first, second = serve(OPENAI, [(conversation(0), 0.0), (conversation(1), 10.0)])
    assert first.cache_write == second.cache_write == 0
    assert second.cache_read and second.cache_read % 128 == 0
    assert 0 <= (first.uncached_input or 0) - second.cache_read < 128


def test_a_simulated_model_counts_and_prices_its_replies() -> None:
    model = SimulatedModel(ScriptedModel(["one", "two"]), MARKED, iter([0.0, 10.0]).__next__, PRICE)
    first = model.complete([SYSTEM, GO], TOOLS)
    second = model.complete([SYSTEM, GO, first.message, GO], TOOLS)
    assert first.usage.known and second.usage.cache_read == first.usage.cache_write
    assert second.cost_usd is not None and first.cost_usd is not None and second.cost_usd < first.cost_usd
    assert second.cache is not None and second.cache.gap_s == 10.0
