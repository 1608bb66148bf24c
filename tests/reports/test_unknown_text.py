"""Why a limit in dollars or tokens could not be kept, at the start and at the end of a run."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from d2k_agent.app.choosing_model import note_on_price
from d2k_agent.config import RunConfig
from d2k_agent.models import PriceRow, Rates, Usage
from d2k_agent.records import RunFinished, RunRecord, StopReason, Trace
from d2k_agent.reports.outcome import outcome_data, outcome_text
from tests.reports.events import KNOWN, reply, stamped

MODEL = "openai/my-model"
BARE = PriceRow(MODEL, "own.json", None, Rates(Decimal(2), Decimal(8)))
READS = PriceRow(MODEL, "own.json", None, Rates(Decimal(2), Decimal(8), cache_read=Decimal(1)))
CONFIG = RunConfig("muon", MODEL, budget_usd=1.0)


def ended(reason: StopReason, *usages: Usage, price: PriceRow = BARE) -> Trace:
    record = RunRecord(run_id="r", config=CONFIG, task_slug="muon", task_digest="t", workloads=("w",), price=price)
    end = RunFinished(stop_reason=reason, turns=len(usages), selection=None, provisional=None)
    replies = [reply(turn, usage=usage) for turn, usage in enumerate(usages, start=1)]
    return Trace(record, tuple(stamped(*replies, end)))


def test_the_start_names_the_rates_that_a_limit_in_dollars_may_need() -> None:
    note = note_on_price(CONFIG, BARE)
    assert note is not None and note.startswith("prices of openai/my-model: own.json; it has no cache_read_input_token")
    assert (
        "and no cache_creation_input_token_cost, so the first reply with such tokens" in note and "ends the run" in note
    )
    whole = PriceRow(MODEL, "own.json", None, Rates(*[Decimal(1)] * 5))
    assert note_on_price(CONFIG, whole) == "prices of openai/my-model: own.json"
    assert note_on_price(RunConfig("muon", MODEL), BARE) == "prices of openai/my-model: own.json"


@pytest.mark.parametrize(
    ("price", "usage", "words"),
    [
        (BARE, Usage(10, 0, 90, 5), "(own.json) have no cache_read_input_token_cost, and a reply has such tokens"),
        (READS, Usage(10, 5, 90, 5), "(own.json) have no cache_creation_input_token_cost, and"),
        (BARE, KNOWN, "no cache_creation_input_token_cost and no cache_read_input_token_cost"),
        (
            BARE,
            Usage.unknown(),
            "1 of 1 reply came without a count of tokens; have the server report usage, or leave --budg",
        ),
        (BARE, Usage(10, 0, 0, 5), "The known prices of openai/my-model do not hold for 1 reply;"),
    ],
)
def test_the_end_says_what_is_missing_and_what_to_add(price: PriceRow, usage: Usage, words: str) -> None:
    trace = ended(StopReason.COST_UNKNOWN, usage, price=price)
    assert words in outcome_text(Path("r"), trace).splitlines()[1]
    assert words in outcome_data(Path("r"), trace)["stop_detail"]


def test_tokens_that_nobody_counted_are_said_and_another_end_needs_no_word() -> None:
    unsplit = Usage(None, None, None, 5, unsplit_input=100)
    told = outcome_data(Path("r"), ended(StopReason.TOKENS_UNKNOWN, KNOWN, unsplit))["stop_detail"]
    assert told.startswith("1 of 2 replies came without a complete count of tokens; have the server")
    assert outcome_data(Path("r"), ended(StopReason.TURN_LIMIT, Usage.unknown()))["stop_detail"] is None
