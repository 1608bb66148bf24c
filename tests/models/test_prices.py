"""Prices: exact arithmetic, tiers, unknown rates, and where a model's row is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from d2k_agent.app.choosing_model import price_file
from d2k_agent.app.surroundings import Surroundings
from d2k_agent.config import ModelOptions, Settings
from d2k_agent.errors import UsageError
from d2k_agent.models import PriceFile, PriceRow, Rates, Tier, Usage, cost_usd, costs
from d2k_agent.models.litellm_client import find_price, load
from d2k_agent.models.price_lists import ModelNames, map_row, snapshot_row

OPUS = snapshot_row(ModelNames.of("anthropic/claude-opus-4-8"))
FLAT = PriceRow("m", "test", None, Rates(Decimal(5), Decimal(25), Decimal("6.25"), Decimal(10), Decimal("0.5")))
ENTRY = {"input_cost_per_token": 5e-06, "output_cost_per_token": 2.5e-05}


def priced(usage: Usage, row: PriceRow = FLAT) -> Decimal | None:
    return cost_usd(row, usage)


@pytest.mark.parametrize(
    ("tokens", "exact", "cents", "published"),
    [
        ((41_000, 37_261_000, 402_034_000, 7_898_000), "631.55325", "631.55", "631.56"),
        ((108_000, 48_084_000, 633_801_000, 8_085_000), "820.0905", "820.09", "820.10"),
    ],
)
def test_the_published_totals_at_the_published_prices(
    tokens: tuple[int, ...], exact: str, cents: str, published: str
) -> None:
    """Table 6 of D2K-Bench prints tokens in thousandths of a million, and dollars from the tokens before rounding.

    A bucket may have been half a thousandth of a million more, so the printed dollars may lie that much above.
    """
    assert OPUS is not None
    cost = priced(Usage(*tokens), OPUS)
    assert cost == Decimal(exact)
    assert f"{cost:.2f}" == cents
    rates = (OPUS.rates.uncached_input, OPUS.rates.cache_write, OPUS.rates.cache_read, OPUS.rates.output)
    lost_by_rounding = sum(Decimal("0.0005") * (rate or 0) for rate in rates)
    assert Decimal(0) < Decimal(published) - Decimal(exact) < lost_by_rounding + Decimal("0.005")


def test_a_sum_of_many_replies_is_exact() -> None:
    reply = priced(Usage(1, 0, 1, 0))
    assert reply == Decimal("0.0000055")
    assert sum([reply] * 1_000_000, Decimal()) == Decimal("5.5")


def test_what_was_written_for_an_hour_costs_what_an_hour_costs() -> None:
    assert priced(Usage(0, 1_000_000, 0, 0)) == Decimal("6.25")
    assert priced(Usage(0, 1_000_000, 0, 0, cache_write_1h=400_000)) == Decimal("7.75")


def test_a_rate_of_its_own_for_reasoning_holds_for_that_part_of_the_output() -> None:
    row = PriceRow("m", "test", None, Rates(Decimal(1), Decimal(8), reasoning=Decimal(3)))
    assert priced(Usage(0, 0, 0, 1_000_000, 250_000), row) == Decimal("6.75")
    assert priced(Usage(0, 0, 0, 1_000_000, 250_000)) == Decimal(25)


@pytest.mark.parametrize(("read", "rate"), [(199_000, 1), (199_001, 2), (399_001, 4)])
def test_a_long_request_has_the_rates_of_its_tier_for_every_token(read: int, rate: int) -> None:
    def rates(factor: int) -> Rates:
        return Rates(*[Decimal(factor)] * 5)

    row = PriceRow("m", "test", None, rates(1), (Tier(200_000, rates(2)), Tier(400_000, rates(4))))
    usage = Usage(500, 500, read, 7)
    assert priced(usage, row) == Decimal(rate * (1_000 + read + 7)) / 1_000_000


def test_tokens_without_a_rate_have_no_price_and_no_tokens_need_none() -> None:
    row = PriceRow("m", "test", None, Rates(Decimal(5), Decimal(25)))
    assert priced(Usage(1_000_000, 0, 0, 0), row) == Decimal(5)
    assert priced(Usage(1_000_000, 1, 0, 0), row) is None
    assert priced(Usage(1_000_000, 0, 1, 0), row) is None
    assert priced(Usage(0, 1, 0, 0, cache_write_1h=1), row) is None


def test_an_unknown_bucket_has_no_price_and_the_known_ones_keep_theirs() -> None:
    usage = Usage(1_000_000, None, 0, 1_000_000)
    assert priced(usage) is None and priced(Usage.unknown()) is None
    assert (costs(FLAT, usage)["uncached_input"], costs(FLAT, usage)["cache_write"]) == (Decimal(5), None)


def test_input_that_nobody_split_costs_what_uncached_input_does() -> None:
    usage = Usage(None, None, None, 1_000_000, unsplit_input=2_000_000)
    assert costs(FLAT, usage)["unsplit_input"] == Decimal(10)
    assert priced(usage) == Decimal(35)


def test_a_snapshot_holds_for_its_provider_alone_and_comes_before_the_map() -> None:
    row = find_price("claude-opus-4-8", ModelOptions())
    assert row == OPUS and row is not None
    assert row.source.startswith("https://") and row.date == "2026-09-21"
    elsewhere = find_price("bedrock/us.anthropic.claude-opus-4-8", ModelOptions())
    assert elsewhere is not None and elsewhere.source.startswith("LiteLLM 1.") and elsewhere.rates != row.rates


def test_the_snapshots_say_what_the_locked_map_says() -> None:
    """Where the two part, a price has changed: the snapshot wants a new row, or the reason why not."""
    assert OPUS is not None
    listed = map_row(load().model_cost, ModelNames.of(OPUS.model), "map")
    assert listed is not None and (listed.rates, listed.tiers) == (OPUS.rates, OPUS.tiers)


def test_the_map_gives_tiers_of_both_forms() -> None:
    astra = find_price("openai/gpt-6-astra", ModelOptions())
    assert astra is not None
    assert (astra.rates.output, astra.rates_at(272_001).output) == (Decimal(50), Decimal(75))
    coder = find_price("dashscope/qwen3-coder-plus", ModelOptions())
    assert coder is not None
    assert [tier.above_input for tier in coder.tiers] == [32_000, 128_000, 256_000]
    assert coder.rates_at(32_000).cache_read == Decimal("0.1") and coder.rates_at(32_001).cache_read == Decimal("0.18")


@pytest.mark.parametrize("name", ["openai/d2k-brand-new-2027", "groq/gpt-6-astra"])
def test_an_unlisted_model_has_no_price_also_where_another_provider_lists_its_name(name: str) -> None:
    assert find_price(name, ModelOptions()) is None


def test_a_price_does_not_depend_on_what_was_loaded_before(priced: str) -> None:
    """What is registered with litellm counts where that list is handed in, and nowhere else."""
    assert find_price(priced, ModelOptions()) is None
    row = find_price(priced, ModelOptions(), listed=load().model_cost)
    assert row is not None and row.rates.cache_write == Decimal("6.25")


def test_a_server_of_ones_own_has_the_prices_of_a_file_or_none(tmp_path: Path) -> None:
    own = ModelOptions(api_base="http://127.0.0.1:9/v1")
    assert find_price("openai/gpt-6-astra", own) is None
    row = find_price("openai/gpt-6-astra", own, file_of({"gpt-6-astra": ENTRY}, tmp_path))
    assert row is not None and row.rates == Rates(Decimal(5), Decimal(25))


def file_of(data: Any, folder: Path) -> PriceFile:
    path = folder / "prices.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return PriceFile(path, "prices.json")


def test_the_whole_map_is_a_price_file(tmp_path: Path) -> None:
    row = file_of(load().model_cost, tmp_path).row(ModelNames.of("anthropic/claude-opus-4-8"))
    assert OPUS is not None and (row.rates, row.source, row.date) == (OPUS.rates, "prices.json", None)


@pytest.mark.parametrize("key", ["p/m", "m"])
def test_a_file_names_a_model_with_its_provider_or_without(key: str, tmp_path: Path) -> None:
    assert file_of({"x": ENTRY, key: {**ENTRY, "litellm_provider": "p"}}, tmp_path).row(ModelNames.of("p/m"))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("{", r"prices\.json is no JSON"),
        ("[1]", r"prices\.json must be an object"),
        ({"m": 3}, r"prices\.json: m: a row must be an object, not 3"),
        (
            {"m": {**ENTRY, "input_cost_per_token": "5e-6"}},
            r"m: input_cost_per_token must be US\$ per token .* not a string",
        ),
        ({"m": {**ENTRY, "cache_read_input_token_cost": -1}}, r"m: cache_read_input_token_cost must be .* not -1"),
        ('{"m": {"output_cost_per_token": NaN}}', r"m: output_cost_per_token must be .* not nan"),
        ({"m": {**ENTRY, "input_cost_per_token_above_200k_tokens": True}}, "input_cost_per_token_above_200k_tokens"),
        ({"m": {"tiered_pricing": [{"range": 3}]}}, "m: tiered_pricing must be a list of objects with a range"),
    ],
)
def test_a_broken_file_is_named_with_its_field(data: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=words):
        file_of(data, tmp_path)


@pytest.mark.parametrize(
    "data",
    [
        {"MY_KEY": "hunter2-very-hidden"},
        {"m": ["hunter2-very-hidden"]},
        {"m": {**ENTRY, "input_cost_per_token": "hunter2-very-hidden"}},
        {"m": {**ENTRY, "output_cost_per_token": {"is": "hunter2-very-hidden"}}},
        {"m": {"tiered_pricing": [{"range": ["hunter2-very-hidden", 2]}]}},
        {"sk-hunter2-very-hidden": 3},
    ],
)
def test_a_file_that_holds_a_key_is_refused_without_telling_it(data: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        file_of(data, tmp_path)
    assert "hunter2" not in str(refused.value) and str(refused.value).startswith("prices.json: ")
    around = Surroundings(tmp_path, {"MY_KEY": "plain-words-as-key"}, tmp_path, "python")
    (tmp_path / "prices.json").write_text('{"plain-words-as-key": 3}')
    with pytest.raises(UsageError, match=r"prices\.json: <MY_KEY>: a row must"):
        price_file(around, Settings(price_file="prices.json"))


def test_a_file_without_the_model_or_half_of_its_row_is_refused(tmp_path: Path) -> None:
    file = file_of({"a/other": ENTRY, "a/half": {"input_cost_per_token": 1e-06}}, tmp_path)
    with pytest.raises(UsageError, match=r"prices\.json has no row for a/m"):
        file.row(ModelNames.of("a/m"))
    with pytest.raises(UsageError, match=r"a/half: output_cost_per_token is missing"):
        file.row(ModelNames.of("a/half"))
    with pytest.raises(UsageError, match=r"none\.json cannot be read"):
        PriceFile(tmp_path / "none.json", "none.json")


def test_a_file_overrides_the_lists(client: Callable[..., Any], case: Callable[[str], Any], tmp_path: Path) -> None:
    free = {"cache_read_input_token_cost": 0, "cache_creation_input_token_cost": 0}
    file = file_of({"anthropic/claude-opus-4-8": {**ENTRY, **free}}, tmp_path)
    reply = client(case("B01b"), "anthropic/claude-opus-4-8", own_server=False, price_file=file).ask()
    assert reply.cost_usd == 0.01256


def test_a_reply_that_the_map_prices_by_more_than_its_tokens_has_no_price(
    client: Callable[..., Any], case: Callable[[str], Any]
) -> None:
    """Here: a service tier of twice the price, of which the buckets know nothing."""
    name = "openai/d2k-test-tiered"
    entry = {**ENTRY, "cache_read_input_token_cost": 5e-07, "litellm_provider": "openai", "mode": "chat"}
    load().register_model({name: {**entry, "input_cost_per_token_priority": 1e-05}})
    step = case("B01a")["responses"][0]
    step["body"]["model"] = "d2k-test-tiered"
    assert client([step], name, own_server=False).ask().cost_usd is not None
    step["body"]["service_tier"] = "priority"
    assert client([step], name, own_server=False).ask().cost_usd is None
