"""d2k-agent report: the table, the page, and every run that cannot be reported told in a sentence."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from d2k_agent.app.reporting import MOST_DETAILED
from d2k_agent.catalog import samples_dir
from d2k_agent.records import RunFolder
from tests.cli.runs import recorded
from tests.cli.shell import Answer, assert_refused, command, d2k, environment, without_override
from tests.reports.curved import a_curved_run, record, turns_of
from tests.reports.reported import HOSTILE, read

SAMPLE = str(samples_dir() / "muon")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a slow and a fast run."""
    recorded(tmp_path, "slow", *a_curved_run(None, 1.25).events)
    recorded(tmp_path, "fast", *a_curved_run(2.0, 2.5, 3.0).events)
    return tmp_path


def complaints(answer: Answer) -> list[str]:
    assert "Traceback" not in answer.err
    return answer.err.splitlines()


def test_one_run_gives_a_table_and_a_page_named_after_it(tmp_path: Path) -> None:
    answer = d2k("report", SAMPLE, "--budget", "8", folder=tmp_path)
    assert answer.status == 0 and answer.err == ""
    lines = [line.split() for line in answer.out.splitlines()]
    assert "muon 6 first eligible 1.22 unknown unknown unknown unknown unknown 2 min 11 s".split() in lines
    assert "8 budget of 8 turns 1.22 unknown unknown unknown unknown unknown 2 min 25 s".split() in lines
    assert "12 end: finished_by_model 3.03 unknown unknown unknown unknown unknown 7 min 13 s".split() in lines
    assert answer.out.endswith("Page: muon-report.html\n")
    page = read((tmp_path / "muon-report.html").read_text())
    assert page.html.startswith("<!doctype html>") and page.of("svg") and "budget of 8 turns" in page.text
    assert "def run(" in page.text


def test_several_runs_stand_on_one_page(project: Path) -> None:
    answer = d2k("report", "slow", "fast", "--out", "both.html", folder=project)
    assert answer.status == 0 and answer.out.endswith("Page: both.html\n")
    page = read((project / "both.html").read_text())
    assert "Run 1, slow: 1.25 from turn 2 on. Run 2, fast: 2 from turn 1 on" in page.text
    assert sorted(path.name for path in project.iterdir()) == ["both.html", "traces"]


def test_a_folder_of_runs_is_all_of_them_and_a_run_named_twice_counts_once(project: Path) -> None:
    (project / "traces" / "runs" / "notes").mkdir()
    answer = d2k("report", "traces/runs", "slow", "--json", folder=project)
    data = json.loads(answer.out)
    assert (answer.status, [run["run"] for run in data["runs"]], data["problems"]) == (0, ["fast", "slow"], {})


def test_a_page_of_many_runs_is_bounded(tmp_path: Path) -> None:
    events = a_curved_run(2.0, 2.5, 3.0).events
    for number in range(MOST_DETAILED + 1):
        recorded(tmp_path, f"r{number}", *events)
    answer = d2k("report", "traces/runs", folder=tmp_path)
    assert answer.status == 0 and answer.out.endswith("Page: runs-report.html\n")
    page = read((tmp_path / "runs-report.html").read_text())
    assert page.text.count("Every turn and the trace are left out") == MOST_DETAILED + 1


def test_a_script_gets_one_object_and_a_page_only_where_it_names_one(project: Path) -> None:
    data = json.loads(d2k("report", "fast", "--budget", "2", "--budget", "1", "--json", folder=project).out)
    (run,) = data["runs"]
    assert data["page"] is None and [p.name for p in project.iterdir()] == ["traces"]
    assert {budget: point["score"] for budget, point in run["budgets"].items()} == {"1": 2.0, "2": 2.5}
    data = json.loads(d2k("report", "fast", "--json", "--out", "p.html", folder=project).out)
    assert data["page"] == str(project / "p.html") and (project / "p.html").exists()


def test_runs_of_one_name_are_told_apart_by_their_paths(project: Path) -> None:
    shutil.copytree(project / "traces" / "runs" / "fast", project / "fast")
    data = json.loads(d2k("report", "fast", "traces/runs/fast", "--json", folder=project).out)
    assert [run["run"] for run in data["runs"]] == ["fast", "traces/runs/fast"]


def damage(path: Path, name: str) -> str:
    """Break the run in `path` as `name` says; what the sentence about it says."""
    log, run = path / "events.jsonl", path / "run.json"
    match name:
        case "not json":
            log.write_bytes(log.read_bytes().replace(b'"type":"submitted"', b'"type":submitted', 1))
            return "cannot be read"
        case "a line is missing":
            lines = log.read_bytes().splitlines(keepends=True)
            log.write_bytes(b"".join(lines[:2] + lines[3:]))
            return "lines were lost or added"
        case "no record":
            run.write_bytes(b"{")
            return "cannot be read"
        case "another format":
            run.write_text(json.dumps({**json.loads(run.read_text()), "format": 99}))
            return "is a run of format 99"
        case "passed and not measured":
            log.write_bytes(
                log.read_bytes().replace(b'{"label":"small","measurement":{', b'{"label":"x","measurement":{')
            )
            return "records that contradict each other"
        case "no file":
            log.unlink()
            log.mkdir()
            return "is no file that could be read to its end"
        case "endless":
            log.unlink()
            log.symlink_to("/dev/zero")
            return "is no file that could be read to its end"
        case "a score of nothing":
            log.write_bytes(
                re.sub(rb'"geomean_speedup":[^,]+,"message"', b'"geomean_speedup":NaN,"message"', log.read_bytes())
            )
            return "turn 2 has a score of nan"
        case "endless dollars":
            log.write_bytes(log.read_bytes().replace(b'"cost_usd":0.038', b'"cost_usd":1e999'))
            return "had taken Infinity US$"
    raise AssertionError(name)


@pytest.mark.parametrize(
    "name",
    [
        "not json",
        "a line is missing",
        "no record",
        "another format",
        "passed and not measured",
        "no file",
        "endless",
        "a score of nothing",
        "endless dollars",
    ],
)
def test_a_broken_run_is_told_in_a_sentence_and_the_others_are_reported(project: Path, name: str) -> None:
    words = damage(project / "traces" / "runs" / "slow", name)
    answer = d2k("report", "slow", "fast", folder=project)
    (complaint,) = complaints(answer)
    assert answer.status == 2 and complaint.startswith("d2k-agent: ") and words in complaint
    assert "fast" in answer.out and "slow" not in answer.out
    page = read((project / "report.html").read_text())
    assert "Not in this report" in page.text and words in page.text


def test_what_is_no_run_is_named_and_the_others_are_reported(project: Path) -> None:
    answer = d2k("report", "gone", "traces", "fast", "--json", folder=project)
    first, second = complaints(answer)
    assert answer.status == 2 and "there is no run 'gone'" in first and "is no run's folder" in second
    data = json.loads(answer.out)
    assert [run["run"] for run in data["runs"]] == ["fast"] and set(data["problems"]) == {"gone", "traces"}


def test_without_any_run_that_can_be_read_nothing_is_written(tmp_path: Path) -> None:
    answer = d2k("report", "gone", folder=tmp_path)
    assert_refused(answer, 2, "there is no run 'gone'")
    assert answer.out == "" and list(tmp_path.iterdir()) == []


def test_a_run_that_cannot_be_opened_is_told(project: Path) -> None:
    closed = project / "traces" / "runs" / "slow" / "events.jsonl"
    closed.chmod(0)
    line = [*without_override(), *command("report", "slow", "fast", "--json")]
    done = subprocess.run(line, cwd=project, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 2 and f"{closed} cannot be read (Permission denied)" in done.stderr


def test_an_interrupted_run_and_an_empty_one_are_reported_as_what_they_are(project: Path) -> None:
    recorded(project, "cut", *turns_of([1.5, None]))
    recorded(project, "empty")
    answer = d2k("report", "cut", "empty", folder=project)
    assert answer.status == 0 and answer.err == ""
    assert "cut: is interrupted: what stands here is as it was after 2 turns." in answer.out
    assert "empty: is interrupted: what stands here is as it was after 0 turns." in answer.out
    assert "0 end: interrupted 0.1 (fallback) 0 0 0 0 0.0000 0.0 s" in " ".join(answer.out.split())
    assert read((project / "report.html").read_text()).text.count("No events.") == 1


def test_a_run_that_is_being_driven_says_so(project: Path) -> None:
    run = RunFolder(recorded(project, "live", *turns_of([1.5])))
    with run.drive():
        answer = d2k("report", "live", folder=project)
    assert answer.status == 0 and "live: is still running: what stands here is as it was after 1 turn." in answer.out


def test_a_torn_last_line_is_left_out(project: Path) -> None:
    log = project / "traces" / "runs" / "fast" / "events.jsonl"
    log.write_bytes(log.read_bytes()[:-20])
    answer = d2k("report", "fast", folder=project)
    assert answer.status == 0 and "end: interrupted" in answer.out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--budget", "0"), ("--budget must be at least 1 turn",)),
        (("--budget", "many"), ("invalid int value: 'many'",)),
        (("--out", ""), ("--out '' names no file",)),
        (("--out", "-"), ("--out - names no file",)),
        (("--out", "traces"), ("is a folder",)),
        (("--out", "none/page.html"), ("there is no folder",)),
        (("--out", "mine.txt"), ("is no page of a report",)),
    ],
)
def test_a_wrong_option_is_refused_and_nothing_is_written(
    project: Path, options: tuple[str, ...], words: tuple[str, ...]
) -> None:
    (project / "mine.txt").write_text("mine")
    assert_refused(d2k("report", "fast", *options, folder=project), 2, *words)
    assert (project / "mine.txt").read_text() == "mine" and len(list(project.iterdir())) == 2


def test_a_page_is_written_again_over_itself_and_over_nothing_else(project: Path) -> None:
    for _ in range(2):
        assert d2k("report", "fast", folder=project).status == 0
    (project / "fast-report.html").write_text("<p>mine</p>")
    assert_refused(d2k("report", "fast", folder=project), 2, "is no page of a report", "--out")


def test_a_stranger_can_put_no_script_into_the_page_and_nothing_into_the_terminal(tmp_path: Path) -> None:
    name = "run<script>alert(1)<script>"
    hostile = record(model=HOSTILE + "\x1b[2J")
    recorded(tmp_path, name, *a_curved_run(1.0).events, run=hostile)
    answer = d2k("report", name, "--out", "p.html", folder=tmp_path)
    assert answer.status == 0 and "\x1b" not in answer.out
    page = read((tmp_path / "p.html").read_text())
    assert not page.of("script") and not page.of("img") and HOSTILE in page.text and "\\x1b[2J" in page.text


def test_a_link_where_the_page_goes_is_not_followed(project: Path) -> None:
    (project / "elsewhere.html").write_text("mine")
    (project / "fast-report.html").symlink_to("elsewhere.html")
    assert_refused(d2k("report", "fast", folder=project), 2, "is no page of a report")
    assert (project / "elsewhere.html").read_text() == "mine"
