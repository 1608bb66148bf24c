"""What a run cost at some prices: exact by bucket, with everything that has no price counted."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from d2k_agent.config import RunConfig
from d2k_agent.models import PriceRow, Rates, Tier, Usage
from d2k_agent.records import (
    Event,
    ModelCallInterrupted,
    ModelReplied,
    RunFolder,
    RunRecord,
    cost_at,
    recorded_cost,
    total,
)

ROW = PriceRow(
    "p/m",
    "https://p.example/prices",
    "2026-09-21",
    Rates(Decimal(5), Decimal(25), Decimal("6.25"), None, Decimal("0.5")),
    (Tier(200_000, Rates(Decimal(10), Decimal(30))),),
)


def replied(usage: Usage, cost_usd: float | None = None, **more: Any) -> ModelReplied:
    return ModelReplied(
        call=1, turn=1, message={}, finish_reason="stop", usage=usage, cost_usd=cost_usd, seconds=1.0, **more
    )


def test_dollars_by_bucket_add_up_to_the_total() -> None:
    cost = cost_at([replied(Usage(1_000, 2_000, 30_000, 400)), replied(Usage(1, 0, 0, 1))], ROW)
    assert cost.usd == {
        "uncached_input": Decimal("0.005005"),
        "cache_write": Decimal("0.0125"),
        "cache_read": Decimal("0.015"),
        "output": Decimal("0.010025"),
        "unsplit_input": None,
    }
    assert cost.total_usd == Decimal("0.04253") and not cost.lower_bound


def test_the_tier_is_that_of_each_reply_and_never_of_the_sum() -> None:
    usage = Usage(150_000, 0, 0, 0)
    assert cost_at([replied(usage), replied(usage)], ROW).total_usd == Decimal("1.5")
    assert cost_at([replied(Usage(300_000, 0, 0, 0))], ROW).total_usd == Decimal(3)


@pytest.mark.parametrize(
    ("gap", "unpriced"),
    [
        (replied(Usage.unknown()), 1),
        (replied(Usage(1, 1, 1, 1, cache_write_1h=1)), 1),
        (replied(Usage(0, 0, 0, 0), unknown_attempts=1), 0),
        (ModelCallInterrupted(call=2), 0),
    ],
)
def test_what_has_no_price_makes_a_lower_bound(gap: Event, unpriced: int) -> None:
    cost = cost_at([replied(Usage(1_000_000, 0, 0, 0)), gap], ROW)
    assert cost.lower_bound and cost.unpriced_replies == unpriced
    assert cost.total_usd is not None and Decimal(10) <= cost.total_usd < Decimal("10.1")


def test_without_prices_and_without_tokens_nothing_is_known() -> None:
    for cost in (cost_at([replied(Usage(1, 1, 1, 1))], None), cost_at([replied(Usage.unknown())], ROW)):
        assert cost.total_usd is None and cost.lower_bound


def test_a_bucket_that_nobody_counted_costs_an_unknown_sum_and_not_0() -> None:
    unsplit = replied(Usage(None, None, None, 10_000, unsplit_input=20_000), 0.35)
    for cost in (cost_at([unsplit], ROW), recorded_cost([unsplit], ROW)):
        assert (cost.usd["output"], cost.usd["unsplit_input"]) == (Decimal("0.25"), Decimal("0.1"))
        assert {cost.usd[name] for name in ("uncached_input", "cache_write", "cache_read")} == {None}
        assert cost.total_usd == Decimal("0.35") and not cost.lower_bound


def test_a_reply_that_was_not_priced_when_it_came_has_no_recorded_cost() -> None:
    usage = Usage(1_000, 0, 0, 0)
    events = [replied(usage, 0.005), replied(usage, None)]
    recorded = recorded_cost(events, ROW)
    assert (recorded.total_usd, recorded.unpriced_replies) == (Decimal("0.005"), 1)
    assert cost_at(events, ROW).total_usd == Decimal("0.01")


def test_where_no_prices_were_recorded_the_recorded_sum_stands_alone() -> None:
    recorded = recorded_cost([replied(Usage(1, 1, 1, 1), 0.1), replied(Usage(1, 1, 1, 1), 0.2)], None)
    assert recorded.total_usd == Decimal("0.3") and set(recorded.usd.values()) == {None}


def test_a_total_of_recorded_costs_is_exact() -> None:
    assert total([replied(Usage(1, 1, 1, 1), 0.1)] * 3).cost_usd == 0.3


def test_the_prices_of_a_run_come_back_exactly_and_older_runs_have_none(tmp_path: Path) -> None:
    record = RunRecord(
        run_id="r", config=RunConfig("muon", "p/m"), task_slug="muon", task_digest="d", workloads=("w",), price=ROW
    )
    run = RunFolder.create(tmp_path / "r", record)
    assert run.read_record().price == ROW

    data = json.loads(run.run_json.read_text())
    assert data["price"]["rates"]["cache_write"] == "6.25"
    del data["price"]
    run.run_json.write_text(json.dumps(data))
    assert run.read_record().price is None
