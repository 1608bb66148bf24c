"""The page of a report, read as text: what it shows, what it forbids, and that whatever was written stays text."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from d2k_agent.catalog import samples_dir
from d2k_agent.contract import VerdictStatus
from d2k_agent.models import Usage
from d2k_agent.records import Event, ModelReplied, SelectionConfirmed, ToolFinished, Trace, read_trace
from d2k_agent.reports.page import STYLE, page_html
from tests.reports.curved import a_curved_run, a_turn, on_a_cpu, record, sha_of, turns_of
from tests.reports.events import stamped
from tests.reports.measured import H200
from tests.reports.reported import HOSTILE, Page, page_of, read, reported

SAMPLE = samples_dir() / "muon"


def written(text: str) -> Trace:
    """A run in which `text` stands wherever a model, a machine or a stranger can put it."""

    def changed(event: Event) -> Event:
        if isinstance(event, ModelReplied):
            call = {"id": "c", "type": "function", "function": {"name": text, "arguments": f'{{"content": "{text}"'}}
            return event.model_copy(update={"message": {"role": text, "content": text, "tool_calls": [call]}})
        return event.model_copy(update={"text": text, "name": text}) if isinstance(event, ToolFinished) else event

    machine = replace(H200, machine=text, device_name=text, driver=text)
    events = [changed(event) for event in turns_of([2.0, VerdictStatus.INCORRECT], on=machine)]
    concluded = SelectionConfirmed(sha256=sha_of(1), confirmed=None, note=text)
    run = record(model=text, levels=(text,)).model_copy(update={"task_slug": text, "versions": {text: text}})
    return Trace(run, tuple(stamped(*events, concluded)))


def hostile_page(text: str) -> Page:
    run = replace(reported(written(text), name=text or "-", source=text), folder=text)
    return read(page_html([run], (1,), {text: text}))


def shape(page: Page) -> list[str]:
    return [name for name, _ in page.tags]


def test_a_candidate_with_a_script_is_text_of_the_page() -> None:
    page = hostile_page(HOSTILE)
    assert shape(page) == shape(hostile_page("harmless"))
    assert not page.of("script") and not page.of("img")
    assert page.text.count(HOSTILE) > 10


@given(st.text(min_size=1, max_size=40))
def test_whatever_is_written_changes_no_element(text: str) -> None:
    page = hostile_page(text)
    assert set(shape(page)) == set(shape(hostile_page("harmless")))
    names = {name for _, attributes in page.tags for name in attributes}
    assert not any(name.startswith("on") for name in names)


def test_what_cannot_be_seen_is_told_by_its_number() -> None:
    page = page_of(a_curved_run(2.0), source="x = 1  # \u202etnemmoc \x00 \x1b[31m \udc80 é")
    assert "x = 1  # \\u202etnemmoc \\x00 \\x1b[31m \\udc80 é" in page.text


@pytest.mark.parametrize("page", [page_of(read_trace(SAMPLE), a_curved_run(None, 2.0)), hostile_page(HOSTILE)])
def test_it_loads_nothing_and_runs_nothing(page: Page) -> None:
    assert not {"script", "link", "img", "iframe", "object", "embed", "base", "form", "foreignobject"} & set(
        shape(page)
    )
    for _, attributes in page.tags:
        assert "src" not in attributes and "style" not in attributes
        assert attributes.get("href", "#").startswith("#")
    assert "url(" not in STYLE.read_text() and "@import" not in STYLE.read_text()


def test_its_policy_allows_its_own_style_alone() -> None:
    page = page_of(a_curved_run(2.0))
    (policy,) = [meta["content"] for meta in page.of("meta") if meta.get("http-equiv") == "Content-Security-Policy"]
    style = re.search(r"<style>(.*?)</style>", page.html, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def test_equal_runs_give_equal_bytes() -> None:
    assert page_of(read_trace(SAMPLE)).html == page_of(read_trace(SAMPLE)).html


def test_the_curve_rises_where_the_score_does() -> None:
    page = page_of(a_curved_run(None, 1.0, None, 2.0))
    fallback, line = [
        path["d"] for path in page.of("path") if "swatch" not in path["class"] and path["d"] != "M0 5H26"
    ][:2]
    assert re.fullmatch(r"M[\d.]+ [\d.]+H[\d.]+", fallback)
    start, low, first, first_y, second, second_y, end = map(float, re.findall(r"[\d.]+", line))
    assert start == first < second == end and low > first_y > second_y
    dots = page.of("circle")
    assert [(float(dot["cx"]), float(dot["cy"])) for dot in dots[:2]] == [(first, first_y), (second, second_y)]
    assert "r1: 1 from turn 2 on" in page.text and "r1: 2 from turn 4 on" in page.text


def test_score_stands_against_turns_dollars_gpu_seconds_and_each_bucket() -> None:
    page = page_of(a_curved_run(1.0, 2.0), a_curved_run(1.5, None))
    told = re.findall(r"Score against ([\w $:]+?)(?=Run 1)", page.text)
    assert told == [
        "turns",
        "US$",
        "GPU seconds",
        "tokens: uncached input",
        "tokens: cache write",
        "tokens: cache read",
        "tokens: output",
    ]
    assert "Run 1, r1: 1 from turn 1 on; 2 from turn 2 on. Run 2, r2: 1.5 from turn 1 on." in page.text


def test_every_picture_has_a_name_and_ids_are_used_once() -> None:
    page = page_of(a_curved_run(1.0, 2.0), read_trace(SAMPLE), budgets=(1,))
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for picture in page.of("svg"):
        if picture.get("aria-hidden") != "true":
            assert picture["role"] == "img"
            assert picture.get("aria-label") or set(picture["aria-labelledby"].split()) <= set(ids)
    assert {link["href"][1:] for link in page.of("a")} <= set(ids)
    assert page.of("html") == [{"lang": "en"}] and len(page.of("h1")) == 1
    assert len(page.of("details")) == len(page.of("summary")) and len(page.of("table")) == len(page.of("caption"))


def test_numbers_carry_machine_versions_and_method() -> None:
    page = page_of(read_trace(SAMPLE))
    for words in (
        "judged on NVIDIA H200",
        "timed by events_batch, driver 580.159.04, torch 2.11.0+cu130, triton 3.6.0, target h200",
        "hand-written script muon-walkthrough, no model wrote it",
        "No model wrote it: its replies are a script written by hand.",
        "Score: the highest geometric-mean speedup over the baseline so far, as measured when it was handed in",
    ):
        assert words in page.text


def test_the_outcome_has_score_and_confirmation_and_the_cost_every_bucket() -> None:
    page = page_of(read_trace(SAMPLE), a_curved_run(1.0, 2.0))
    outcomes = [row for row in page.rows if row[0] in ("1. r1", "2. r2")]
    assert [row[3:7] for row in outcomes] == [
        ["finished_by_model", "3.03", "3.03", "12 of 350"],
        ["finished_by_model", "2", "no", "2 of 350"],
    ]
    assert ["r2", "uncached input", "200", "0.3 %", "0.0010", "1.3 %"] in page.rows
    assert ["", "cache read", "60,000", "92.3 %", "0.0300", "39.5 %"] in page.rows
    assert ["", "in all", "65,000", "", "0.0760", ""] in page.rows


def test_the_cost_of_a_run_that_nobody_counted_is_unknown_beside_others_and_a_sentence_alone() -> None:
    blind = Trace(record(), tuple(stamped(*a_turn(1, 2.0, Usage.unknown(), None))))
    both = page_of(blind, a_curved_run(2.0))
    assert ["r1", "uncached input", "unknown", "unknown", "unknown", "unknown"] in both.rows
    assert "1US$ unknown" in both.text and "1tokens unknown" in both.text
    alone = page_of(blind)
    assert "Tokens and dollars are unknown." in alone.text and "share of US$" not in alone.text


def test_a_bucket_that_nobody_counted_has_no_share_and_shares_are_of_what_is_known() -> None:
    unsplit = Usage(None, None, None, 500, unsplit_input=9_500)
    page = page_of(Trace(record(), tuple(stamped(*a_turn(1, 2.0, unsplit, 0.06)))))
    assert ["run", "bucket", "tokens", "share of known tokens", "US$", "share of US$"] in page.rows
    assert ["", "cache read", "unknown", "unknown", "unknown", "unknown"] in page.rows
    assert ["", "output", "at least 500", "5.0 %", "0.0125", "20.8 %"] in page.rows
    whole = page_of(a_curved_run(2.0))
    assert ["run", "bucket", "tokens", "share of tokens", "US$", "share of US$"] in whole.rows


def test_dollars_by_bucket_are_lower_bounds_where_a_reply_has_no_price() -> None:
    events = [*a_turn(1, 2.0), *a_turn(2, None, Usage.unknown(), None)]
    page = page_of(Trace(record(), tuple(stamped(*events))))
    assert ["run", "bucket", "tokens", "share of known tokens", "US$", "share of known US$"] in page.rows
    assert ["", "output", "at least 400", "1.2 %", "at least 0.0100", "26.3 %"] in page.rows
    assert "US$ by bucket, as far as it is known" in page.text and "r1: output at least 0.0100" in page.text


def test_a_bucket_without_a_token_has_no_share_of_nothing_known() -> None:
    page = page_of(Trace(record(), tuple(stamped(*a_turn(1, 2.0, Usage(0, 0, 0, 0), 0.0)))), a_curved_run(2.0))
    assert ["", "output", "0", "-", "0.0000", "-"] in page.rows


def test_a_page_of_very_many_runs_leaves_out_turns_and_traces_and_says_how_to_see_them() -> None:
    page = read(page_html([reported(a_curved_run(2.0), most_chars=None)], (), {}))
    assert "Every turn and the trace are left out" in page.text and "d2k-agent report /runs/r" in page.text
    assert "Curve of r" not in page.text and "model call" not in page.text


def test_what_is_unknown_is_said_and_not_drawn_as_nothing() -> None:
    page = page_of(Trace(record(), tuple(stamped(*a_turn(1, 2.0, Usage.unknown(), None)))))
    assert "Not drawn against what is unknown of them (US$, tokens): r1." in page.text
    assert "Score against GPU seconds" in page.text and "Score against US$" not in page.text
    assert not page.of("rect")


def test_a_sum_with_a_gap_is_a_lower_bound_in_tables_and_at_axes() -> None:
    events = [*a_turn(1, 2.0), *a_turn(2, None, Usage.unknown(), None)]
    page = page_of(Trace(record(), tuple(stamped(*events))))
    assert "Score against US$ (at least)" in page.text and "at least 30,000" in page.text


def test_a_budget_is_a_mark_in_the_picture_and_a_row_in_a_table() -> None:
    page = page_of(a_curved_run(1.0, None, 2.0), budgets=(2,))
    assert len([line for line in page.of("line") if line.get("class") == "mark"]) == 1
    (row,) = [row for row in page.rows if row[2:3] == ["budget of 2 turns"]]
    assert row[:4] == ["r1", "2", "budget of 2 turns", "1"]


def test_runs_that_may_not_be_compared_have_pictures_of_their_own() -> None:
    paper = replace(a_curved_run(3.0), run=record(protocol="paper"))
    page = page_of(a_curved_run(1.0), paper, a_curved_run(2.0))
    assert "These are 2 kinds of runs, which differ in protocol: do not compare their scores." in page.text
    assert page.text.count("Score against turns") == 2
    assert "Run 1, r1: 1 from turn 1 on. Run 2, r3: 2 from turn 1 on." in page.text


def test_the_trace_is_there_by_turns_and_is_bounded() -> None:
    page = page_of(read_trace(SAMPLE))
    assert page.text.count("model call") >= 12 and "expert in GPU kernels" in page.text
    short = read(page_html([reported(read_trace(SAMPLE), most_chars=5_000)], (), {}))
    assert "left out of this page for its size" in short.text
    assert len(short.html) < len(page.html) - 20_000
    assert len(short.of("summary")) == len(page.of("summary"))


@pytest.mark.parametrize("trace", [Trace(record(), ()), on_a_cpu(VerdictStatus.UNTIMED), a_curved_run()])
def test_a_run_in_which_nothing_was_scored_has_a_page_as_well(trace: Trace) -> None:
    page = page_of(trace)
    assert "0.1 (fallback)" in page.text and "no eligible submission" in page.text
    assert not page.of("circle")


def test_what_could_not_be_read_is_named() -> None:
    page = read(page_html([reported(a_curved_run(1.0))], (), {"gone": "there is no run 'gone'"}))
    assert "gone: there is no run 'gone'." in page.text


def test_many_runs_have_lines_of_many_kinds() -> None:
    page = page_of(*[a_curved_run(1.0 + number / 10) for number in range(20)])
    kinds: set[Any] = {path["class"] for path in page.of("path") if path["d"] == "M0 5H26"}
    assert len(kinds) == 20
