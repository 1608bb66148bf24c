"""`inspect` end to end on a small candidate, and its cache, which is never in the way."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from d2k_agent.app.inspecting import MOST_KEPT, ReportCache
from d2k_agent.contract import Verdict, VerdictStatus
from tests.cli.shell import Answer, assert_refused, d2k
from tests.reports.test_inspect_text import REPORT
from tests.reports.test_verdict_text import verdict

TINY = """\
import torch
import triton
import triton.language as tl


@triton.jit
def _copy(X, Y, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + o, tl.load(X + o))


def run(G, steps=5):
    y = torch.empty_like(G)
    _copy[(2,)](G, y, 1024)
    return y
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inspected")
    (folder / "solution.py").write_text(TINY)
    return folder


def inspect(folder: Path, *more: str) -> Answer:
    extra = {"XDG_CACHE_HOME": str(folder / "cache")}
    return d2k("inspect", "muon", "solution.py", "--target", "b200", *more, folder=folder, extra=extra)


@pytest.fixture(scope="module")
def first(folder: Path) -> Answer:
    """The first answer about the candidate, which is compiled for it."""
    return inspect(folder)


def test_a_candidate_is_reported_without_a_gpu(first: Answer) -> None:
    assert first.status == 0, first
    assert first.out.startswith("b200 (sm_100, Triton ")
    assert "warning: kernel _copy (line 7) launches 2 blocks at production_b32_m2048_n5464: 146 of the 148" in first.out
    assert "_copy:7" in first.out and "16/16" in first.out and "kept since" not in first.out


def test_the_second_answer_comes_from_the_cache_and_says_so(folder: Path, first: Answer) -> None:
    again, data = inspect(folder), json.loads(inspect(folder, "--json").out)
    assert again.status == 0
    (kept,) = [line for line in again.out.splitlines() if line.startswith("kept since")]
    assert [line for line in again.out.splitlines() if line != kept] == first.out.splitlines()
    assert data["reports"][0]["kept_since"] in kept and data["reports"][0]["verdict"]["status"] == "untimed"


def test_a_candidate_that_launches_nothing_has_failed(tmp_path: Path) -> None:
    (tmp_path / "solution.py").write_text("import torch\n\n\ndef run(G, steps=5):\n    return torch.empty_like(G)\n")
    answer = inspect(tmp_path)
    assert answer.status == 1 and "warning: run() launched no Triton kernel" in answer.out, answer


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("muon", "nothing.py"), ("there is no file nothing.py",)),
        (("muon", "solution.py", "--workload", "small"), ("muon has no workload 'small'", "choose from")),
        (("muon", "solution.py", "--target", "b9"), ("'b9'", "choose from 'b200'")),
        (("nothing", "solution.py"), ("there is no task 'nothing'",)),
    ],
)
def test_bad_input_is_one_sentence(folder: Path, arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    assert_refused(d2k("inspect", *arguments, folder=folder), 2, *words)


def reported(**more: object) -> Verdict:
    return verdict(VerdictStatus.UNTIMED, compile_report=replace(REPORT, **more))


def test_what_was_kept_is_found_under_its_key_alone(tmp_path: Path) -> None:
    cache = ReportCache(tmp_path / "new" / "folder")
    cache.keep("a", reported())
    found = cache.find("a")
    assert found is not None and found.verdict == reported() and found.kept_since is not None
    assert cache.find("b") is None


@pytest.mark.parametrize("damage", ["", "{", "[]", "null", '{"made": "now", "verdict": {}}', "half"])
def test_a_damaged_file_is_not_there(tmp_path: Path, damage: str) -> None:
    cache = ReportCache(tmp_path)
    cache.keep("a", reported())
    (file,) = tmp_path.iterdir()
    whole = file.read_text()
    file.write_text(whole[: len(whole) // 2] if damage == "half" else damage)
    assert cache.find("a") is None
    cache.keep("a", reported())
    assert cache.find("a") is not None


def test_what_a_busy_machine_may_have_spoilt_is_not_kept(tmp_path: Path) -> None:
    cache = ReportCache(tmp_path)
    cache.keep("time", reported(error="did not finish", error_kind="time"))
    cache.keep("none", verdict(VerdictStatus.TIMED_OUT, message="too long"))
    assert list(tmp_path.iterdir()) == []
    cache.keep("error", reported(error="does not compile", error_kind="compile"))
    assert cache.find("error") is not None


def test_a_full_cache_forgets_the_oldest(tmp_path: Path) -> None:
    for index in range(MOST_KEPT):
        (tmp_path / f"{index}.json").write_text("{}")
        os.utime(tmp_path / f"{index}.json", (index, index))
    ReportCache(tmp_path).keep("new", reported())
    assert len(list(tmp_path.iterdir())) == MOST_KEPT
    assert not (tmp_path / "0.json").exists() and (tmp_path / "new.json").exists()


def test_a_folder_that_cannot_be_made_keeps_nothing_and_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = ReportCache(tmp_path / "file" / "below")
    cache.keep("a", reported())
    assert cache.find("a") is None
