"""d2k-agent cost: runs priced anew from what they recorded, and bad input told in a sentence."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from d2k_agent.config import RunConfig
from d2k_agent.models import PriceRow, Rates, Usage
from d2k_agent.records import (
    CacheChecked,
    Compacted,
    Event,
    EventLog,
    ModelCallFailed,
    ModelReplied,
    RunFolder,
    RunRecord,
)
from tests.cli.shell import Answer, assert_refused, d2k
from tests.models.provider import serving

MODEL = "anthropic/claude-opus-4-8"
PAGE = "https://p.example/prices"
ROW = PriceRow(MODEL, PAGE, "2026-09-21", Rates(Decimal(5), Decimal(25), Decimal("6.25"), Decimal(10), Decimal("0.5")))
UNGUIDED, GUIDED = (41_000, 37_261_000, 402_034_000, 7_898_000), (108_000, 48_084_000, 633_801_000, 8_085_000)
DEARER = {
    "input_cost_per_token": 1e-05,
    "output_cost_per_token": 5e-05,
    "cache_creation_input_token_cost": 1.25e-05,
    "cache_read_input_token_cost": 1e-06,
}


def replied(usage: Usage, cost_usd: float | None) -> ModelReplied:
    return ModelReplied(call=1, turn=1, message={}, finish_reason="stop", usage=usage, cost_usd=cost_usd, seconds=1.0)


def run_of(folder: Path, name: str, *events: Event, price: PriceRow | None = ROW, model: str = MODEL) -> Path:
    path = folder / "traces" / "runs" / name
    record = RunRecord(
        run_id=name, config=RunConfig("muon", model), task_slug="muon", task_digest="d", workloads=("w",), price=price
    )
    with EventLog(RunFolder.create(path, record).events) as log:
        log.append(*events)
    return path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The two rows of the published table as runs of one reply each, and a file of twice the prices."""
    run_of(tmp_path, "unguided", replied(Usage(*UNGUIDED), 631.55325))
    run_of(tmp_path, "guided", replied(Usage(*GUIDED), 820.0905))
    (tmp_path / "prices.json").write_text(json.dumps({MODEL: DEARER}))
    return tmp_path


def rows(answer: Answer) -> list[list[str]]:
    assert answer.status == 0, answer.err
    return [line.split() for line in answer.out.splitlines()]


def test_a_run_by_bucket_with_its_total_and_the_prices_that_it_rests_on(project: Path) -> None:
    shown = rows(d2k("cost", "unguided", folder=project))
    assert shown[0] == "run bucket tokens US$ recorded".split()
    assert shown[1] == "unguided uncached input 41,000 0.2050".split()
    assert "cache write 37,261,000 232.8812".split() in shown
    assert "cache read 402,034,000 201.0170".split() in shown
    assert "output 7,898,000 197.4500".split() in shown
    assert "in all 447,234,000 631.5532".split() in shown
    assert [MODEL, "0", "5", "25", "6.25", "10", "0.5", PAGE, "2026-09-21"] in shown


def test_several_runs_have_a_sum(project: Path) -> None:
    shown = rows(d2k("cost", "unguided", "guided", folder=project))
    assert "all 2 runs in all 1,137,312,000 1,451.6438".split() in shown
    assert sum(MODEL in row for row in shown) == 1


def test_what_the_cache_gave_and_what_shortening_cost_are_told(project: Path) -> None:
    late = "the same beginning, but 412 s after the request before, and entries live 300 s"
    shortened = Compacted(
        call=3, turn=3, results={"a": "x"}, saved_tokens=2_000_000, rewritten_tokens=1_000_000, why="y"
    )
    reply = replied(Usage(0, 0, 100, 5), 0.1)
    run_of(
        project,
        "cached",
        *(reply, CacheChecked(call=1, turn=1, expected=0, observed=0)),
        *(reply, CacheChecked(call=2, turn=2, expected=90_000, observed=0, why=late)),
        *(shortened, reply, reply),
    )
    shown = d2k("cost", "cached", folder=project).out
    assert "cached: cache: 0 of 90,000 expected tokens were read in 2 requests." in shown
    assert f"cached: request 2 read 0 of 90,000 expected cached tokens: {late}." in shown
    assert (
        "cached: before request 3, 1 old result became a digest: 2 requests since did without about 2,000,000 tokens "
        "each (about US$2.0000 as cached input), and about 1,000,000 were written anew, once (about US$5.7500), by our "
        "own count of tokens."
    ) in shown
    (run,) = json.loads(d2k("cost", "cached", "--json", folder=project).out)["runs"]
    assert run["cache"]["expected_tokens"] == 90_000 and run["cache"]["misses"][0]["why"] == late
    (step,) = run["cache"]["compactions"]
    assert (step["saved_usd"], step["rewritten_usd"], step["requests_since"]) == (2.0, 5.75, 2)


@pytest.mark.parametrize("option", ["--prices", "--price-file"])
def test_other_prices_stand_beside_the_recorded_ones(option: str, project: Path) -> None:
    shown = rows(d2k("cost", "unguided", "guided", option, "prices.json", folder=project))
    assert shown[0] == "run bucket tokens US$ recorded US$ new".split()
    assert "in all 447,234,000 631.5532 1,263.1065".split() in shown
    assert "all 2 runs in all 1,137,312,000 1,451.6438 2,903.2875".split() in shown
    assert [MODEL, "0", "10", "50", "12.5", "-", "1", "prices.json", "-"] in shown


def test_a_script_reads_the_same_from_one_object(project: Path) -> None:
    answer = d2k("cost", "unguided", "guided", "--prices", "prices.json", "--json", folder=project)
    data = json.loads(answer.out)
    first = data["runs"][0]
    assert (first["run"], first["model"], first["replies"]) == ("unguided", MODEL, 1)
    assert first["tokens"]["cache_write"] == 37_261_000 and first["tokens"]["unsplit_input"] is None
    assert (first["recorded"]["cost_usd"], first["new"]["cost_usd"]) == (631.55325, 1263.1065)
    assert first["recorded"]["buckets_usd"]["output"] == 197.45 and not first["recorded"]["cost_lower_bound"]
    assert not first["recorded"]["buckets_lower_bound"]
    assert first["recorded"]["prices"]["usd_per_million"]["0"]["cache_write"] == 6.25
    assert data["sum"]["new"] == {"cost_usd": 2903.2875, "cost_lower_bound": False}


def test_what_nobody_counted_makes_the_total_a_lower_bound_and_is_said(tmp_path: Path) -> None:
    lost = ModelCallFailed(call=3, reason="hung up", may_be_billed=True, unknown_attempts=2)
    run_of(tmp_path, "gaps", replied(Usage(*UNGUIDED), 631.55325), replied(Usage.unknown(), None), lost)
    answer = d2k("cost", "gaps", folder=tmp_path)
    assert "in all at least 447,234,000 at least 631.5532".split() in rows(answer)
    assert "output at least 7,898,000 at least 197.4500".split() in rows(answer)
    assert "gaps: 1 of 2 replies came without a complete count of tokens." in answer.out
    assert "gaps: 2 requests may have been billed although no answer came." in answer.out
    assert "gaps: 1 of 2 replies could not be priced (US$ recorded), so the total is a lower bound." in answer.out


def test_an_unknown_cost_is_unknown_and_never_zero(tmp_path: Path) -> None:
    run_of(tmp_path, "blind", replied(Usage.unknown(), None), price=None, model="scripted/x")
    answer = d2k("cost", "blind", folder=tmp_path)
    assert "in all unknown unknown".split() in rows(answer)
    assert "blind recorded no prices, and no price is known for its model; --prices FILE gives one." in answer.out
    data = json.loads(d2k("cost", "blind", "--json", folder=tmp_path).out)
    assert data["sum"]["recorded"]["cost_usd"] is None and data["runs"][0]["recorded"]["buckets_lower_bound"]


def test_an_older_run_without_prices_has_its_recorded_sum_and_the_prices_that_ship(tmp_path: Path) -> None:
    run_of(tmp_path, "older", replied(Usage(*UNGUIDED), 600.5), price=None)
    answer = d2k("cost", "older", folder=tmp_path)
    assert "in all 447,234,000 600.5000 631.5532".split() in rows(answer)
    assert "older recorded no prices; US$ new is at the prices of https://platform.claude.com" in answer.out


def test_input_that_nobody_split_has_a_row_of_its_own(tmp_path: Path) -> None:
    run_of(tmp_path, "silent", replied(Usage(None, None, None, 1_000, unsplit_input=1_000_000), 5.025))
    answer = d2k("cost", "silent", folder=tmp_path)
    assert "unsplit input at least 1,000,000 5.0000".split() in rows(answer)
    assert "cache read unknown unknown".split() in rows(answer)
    assert "silent: of unsplit input nobody said what was cached" in answer.out
    assert "in all at least 1,001,000 5.0250".split() in rows(answer)


def test_a_rate_that_is_missing_leaves_its_own_bucket_unknown_and_is_named(tmp_path: Path) -> None:
    """Whether the first reply read the cache or not: the other buckets are exact, and the total is a lower bound."""
    bare = {name: DEARER[name] for name in ("input_cost_per_token", "output_cost_per_token")}
    (tmp_path / "bare.json").write_text(json.dumps({MODEL: bare}))
    row = PriceRow(MODEL, "own.json", None, Rates(Decimal(5), Decimal(25)))
    cold, warm = replied(Usage(1_000, 0, 0, 100), 0.0075), replied(Usage(1_000, 0, 9_000, 100), None)
    for name, replies, uncached, all_usd in (
        ("both", (cold, warm), "2,000 0.0100 0.0200", "0.0150 at least 0.0300"),
        ("one", (warm,), "1,000 0.0050 0.0100", "0.0075 at least 0.0150"),
    ):
        run_of(tmp_path, name, *replies, price=row)
        answer = d2k("cost", name, "--prices", "bare.json", folder=tmp_path)
        shown = [" ".join(row) for row in rows(answer)]
        assert f"{name} uncached input {uncached}" in shown
        assert "cache read 9,000 unknown unknown" in shown and "cache write 0 0.0000 0.0000" in shown
        assert any(line.endswith(f"at least {all_usd}") for line in shown)
        assert f"{name}: bare.json has no cache_read_input_token_cost (US$ new); add it to the row of" in answer.out
        assert f"{name}: own.json has no cache_read_input_token_cost (US$ recorded); add" in answer.out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["nowhere"], "there is no run 'nowhere'"),
        (["guided", "guided"], "guided is a run that is named already"),
        (["guided", "--prices", "none.json"], "the price file none.json cannot be read"),
        (["guided", "--prices", "other.json"], f"the price file other.json has no row for {MODEL}"),
        (["guided", "--prices", "broken.json"], f"broken.json: {MODEL}: output_cost_per_token must be"),
    ],
)
def test_bad_input_is_one_sentence(words: list[str], complaint: str, project: Path) -> None:
    (project / "other.json").write_text(json.dumps({"p/m": DEARER}))
    (project / "broken.json").write_text(json.dumps({MODEL: {**DEARER, "output_cost_per_token": "free"}}))
    assert_refused(d2k("cost", *words, folder=project), 2, complaint)


@pytest.mark.parametrize(("name", "text"), [("events.jsonl", '{"type": "no such"}\n{}\n'), ("run.json", "{")])
def test_a_damaged_record_is_one_sentence(name: str, text: str, project: Path) -> None:
    (project / "traces" / "runs" / "guided" / name).write_text(text)
    assert_refused(d2k("cost", "guided", folder=project), 2, name, "cannot be read")


def test_a_price_file_is_nothing_to_replies_that_are_written_down(project: Path, tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text(json.dumps({"replies": [{"content": "done"}]}))
    options: list[Any] = ["--model", "scripted/script.json", "--price-file", "prices.json"]
    assert_refused(d2k("solve", "muon", *options, folder=project), 2, "--price-file means nothing to scripted/")


def test_a_run_records_the_prices_of_its_file_and_is_priced_by_them(project: Path) -> None:
    """Over HTTP, from a server of one's own: its model has no other price."""
    tokens = {"prompt_tokens": 10_000, "completion_tokens": 500, "prompt_tokens_details": {"cached_tokens": 9_000}}
    message = {"role": "assistant", "content": "I am done."}
    body = {"id": "x", "object": "chat.completion", "created": 1, "model": "own", "usage": tokens}
    body["choices"] = [{"index": 0, "message": message, "finish_reason": "stop"}]
    (project / "own.json").write_text(json.dumps({"openai/own": DEARER}))
    with serving([{"status": 200, "body": body}]) as provider:
        options = ["--model", "openai/own", "--api-base", f"{provider.url}/v1", "--price-file", "own.json"]
        solved = d2k("solve", "muon", *options, "--run-dir", "new", folder=project)
    assert "prices of openai/own: own.json" in solved.out
    assert "cost in US$ 0.1320".split() in rows(solved)

    record = RunFolder(project / "new").read_record()
    assert record.price is not None and (record.price.source, record.price.rates.output) == ("own.json", Decimal(50))
    (project / "own.json").unlink()
    assert "in all 31,500 0.1320".split() in rows(d2k("cost", "new", folder=project))


def test_a_limit_in_dollars_wants_a_price(project: Path) -> None:
    own = ["--model", "openai/own", "--api-base", "http://127.0.0.1:9/v1", "--run-dir", "new"]
    assert_refused(
        d2k("solve", "muon", *own, "--budget-usd", "5", folder=project),
        2,
        "no price is known for openai/own, so --budget-usd could not be kept; give one with --price-file",
    )
    assert not (project / "new").exists()
    assert_refused(d2k("solve", "muon", "--budget-usd", "5", folder=project), 2, "--budget-usd needs --model")
    assert_refused(d2k("solve", "muon", *own, "--budget-usd", "0", folder=project), 2, "budget-usd must be greater")


def test_a_wrong_price_file_stops_a_run_before_anything_is_written(project: Path) -> None:
    options = ["--model", "openai/gpt-6-astra", "--price-file", "prices.json", "--run-dir", "new"]
    answer = d2k("solve", "muon", *options, folder=project, extra={"OPENAI_API_KEY": "sk-test"})
    assert_refused(answer, 2, "the price file prices.json has no row for openai/gpt-6-astra")
    assert not (project / "new").exists()
