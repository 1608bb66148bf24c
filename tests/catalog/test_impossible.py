"""Latencies below the data sheet's floor: which they are, and that they block a candidate until counts explain them."""

from __future__ import annotations

import dataclasses

import pytest

from d2k_agent.agent import select
from d2k_agent.agent.confirming import conclusion
from d2k_agent.catalog import Counts, suspected
from d2k_agent.contract import Environment, JobKind, Measurement, Verdict, VerdictStatus, WorkloadResult
from d2k_agent.contract.ceilings import Work
from d2k_agent.records import Choice, Confirmation, Submission, Times, cut
from d2k_agent.reports.brief_text import brief_answer
from d2k_agent.reports.verdict_data import verdict_data, verdict_of
from d2k_agent.reports.verdict_text import verdict_text

H200 = Environment("host", "cuda", "NVIDIA H200", "h200", "none", "3.12", "2.11", "3.6", "e" * 64, "t" * 64)
HIGHEST = 1980 / 1830
"""The highest clock of an H200 over the one of its data sheet."""
COUNTS = {"large": Counts(Work({"fp16": 5e12}, 1e9), Work({"fp16": HIGHEST * 989.4e9}, 1e9))}
"""The best known algorithm takes a millisecond on an H200 at the highest clock, the reference five."""


def verdict(large_ms: float, environment: Environment = H200, sha256: str = "a" * 64) -> Verdict:
    results = tuple(
        WorkloadResult(
            label,
            VerdictStatus.PASSED,
            mean_ms=ms,
            speedup=2.0 / ms,
            measurement=Measurement(ms, 100, 2, ms, "events_batch", sets=4),
        )
        for label, ms in (("large", large_ms), ("small", 0.001))
    )
    return Verdict(
        VerdictStatus.PASSED, sha256, "passed", environment, workloads=results, geomean_speedup=2.0 / large_ms
    )


def submission(turn: int, judged: Verdict) -> Submission:
    parts = cut(judged)
    return Submission(turn, f"call_{turn}", judged.candidate_sha256, parts.verdict, parts.times)


def test_a_time_below_the_floor_is_no_latency_to_rank() -> None:
    found = suspected(verdict(0.99), COUNTS)
    assert found.impossible == ("large",) and found.status is VerdictStatus.PASSED and not found.eligible
    assert suspected(verdict(1.01), COUNTS) == verdict(1.01)
    assert verdict_of(verdict_data(found)) == found


@pytest.mark.parametrize("name", ["NVIDIA H200 MIG 1g.18gb", "CPU"])
def test_of_a_gpu_without_data_sheet_nothing_is_impossible(name: str) -> None:
    elsewhere = verdict(0.001, dataclasses.replace(H200, device_name=name))
    assert suspected(elsewhere, COUNTS) == elsewhere


def test_what_stays_in_the_cache_is_no_reason_to_suspect() -> None:
    moved = {"large": Counts(Work(memory_bytes=12e6), Work(memory_bytes=12e6))}

    def measured(l2_bytes: int) -> Verdict:
        return suspected(verdict(0.0005, dataclasses.replace(H200, details={"l2_bytes": l2_bytes})), moved)

    assert measured(60_000_000).eligible  # four sets of 12 MB fit into the cache
    assert measured(1_000_000).impossible == ("large",)
    # Of 12 MB a fourth of 20 MB may stay, both read and written: 2 MB pass memory, in 0.42 us.
    assert measured(20_000_000).eligible and measured(18_000_000).impossible == ("large",)


def test_memory_is_not_asked_about_where_nobody_knows_the_cache() -> None:
    moved = {"large": Counts(Work(memory_bytes=12e9), Work(memory_bytes=12e9))}
    assert suspected(verdict(0.5), moved).eligible
    known = dataclasses.replace(H200, details={"l2_bytes": 60 << 20})
    assert suspected(verdict(0.5, known), moved).impossible == ("large",)


def test_where_ranks_share_a_gpu_nothing_crosses_a_link() -> None:
    sent = {"large": Counts(Work({"fp16": 1e9}, 1e6, 450e6), Work({"fp16": 1e9}, 1e6, 450e6))}

    def judged(*gpus: str) -> Verdict:
        return suspected(verdict(0.5, dataclasses.replace(H200, details={"ranks": 2, "gpus": list(gpus)})), sent)

    assert judged("GPU-0", "GPU-1").impossible == ("large",)
    assert judged("GPU-0", "GPU-0").eligible


def test_the_author_is_told_the_fact_and_no_number() -> None:
    found = suspected(verdict(0.99), COUNTS)
    without = {verdict_text(verdict(0.99)), brief_answer(JobKind.EVALUATE, verdict(0.99))}
    for text in (verdict_text(found), brief_answer(JobKind.EVALUATE, found)):
        assert "large: faster than the hardware allows; the measurement is suspicious and is not ranked" in text
        added = [line for line in text.splitlines() if not any(line in known for known in without)]
        assert len(added) == 1 and not any(character.isdigit() for character in added[0])
    other = {"large": dataclasses.replace(COUNTS["large"], best=Work({"fp16": 4e12}, 1e9))}
    assert suspected(verdict(0.99), other) == found, "how far below the floor it is tells where the floor is"


def test_it_is_selected_once_the_counts_explain_it() -> None:
    fast, slow = submission(1, suspected(verdict(0.5, sha256="f" * 64), COUNTS)), submission(2, verdict(1.5))
    labels = ("large", "small")
    made = select([fast, slow], labels, 20)
    assert made.selection is not None and made.selection.turn == 2
    assert made.why.startswith("the fastest of 1 eligible submission; turn 1 blocked: faster than the hardware allows;")
    alone = select([fast], labels, 20)
    assert alone.selection is None and "none was accepted; turn 1 blocked" in alone.why
    better = {"large": dataclasses.replace(COUNTS["large"], best=Work({"fp16": 1e11}, 1e9))}
    explained = select([submission(1, suspected(verdict(0.5), better)), slow], labels, 20)
    assert explained.selection is not None and explained.selection.turn == 1


def test_a_winner_that_is_impossible_when_judged_again_is_refused() -> None:
    parts = cut(suspected(verdict(0.5), COUNTS))
    choice = Choice(sha256="a" * 64, turn=1, call_id="c", geomean_speedup=2.0)
    found = conclusion(choice, Confirmation("a" * 64, 1, parts.verdict, parts.times))
    assert found.confirmed is False and "faster than the hardware allows" in found.note


def test_records_from_before_are_read_and_nothing_in_them_is_impossible() -> None:
    parts = cut(verdict(0.5))
    assert parts.times is not None
    old = {key: value for key, value in parts.times.model_dump(mode="json").items() if key != "impossible"}
    assert Times.model_validate(old).impossible == ()


def test_a_judge_of_designs_reads_nothing_of_it() -> None:
    assert cut(suspected(verdict(0.5), COUNTS)).verdict == cut(verdict(0.5)).verdict
