"""A finished run: what the commands about runs say of it."""

from __future__ import annotations

import json
import shutil
import subprocess
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from d2k_agent.records import RunFolder
from tests.cli.runs import call, script
from tests.cli.shell import Answer, assert_refused, command, d2k, environment


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Answer]:
    """A folder in which a run of two turns was solved, and what was printed."""
    folder = tmp_path_factory.mktemp("project")
    model = script(folder, call("write", path="notes.txt", content="one\n"), call("read", path="notes.txt"))
    answer = d2k("solve", "muon", "--levels", "L1", "--model", model, "--json", folder=folder)
    return folder, answer


@pytest.fixture
def project(solved: tuple[Path, Answer], tmp_path: Path) -> Path:
    """A copy of that folder which a test may change."""
    return Path(shutil.copytree(solved[0], tmp_path / "project"))


def the_run(folder: Path) -> Path:
    (run,) = (folder / "traces" / "runs").iterdir()
    return run


def test_solve_for_scripts_ends_with_one_object_and_progress_goes_elsewhere(solved: tuple[Path, Answer]) -> None:
    folder, answer = solved
    assert answer.status == 0, answer.err
    (line,) = answer.out.splitlines()
    outcome = json.loads(line)
    assert outcome["run_dir"] == str(the_run(folder))
    assert (outcome["stop_reason"], outcome["selection"], outcome["provisional"]) == ("script_ended", None, None)
    assert outcome["usage"]["output"] is None and outcome["cost_usd"] is None
    first, *_ = answer.err.splitlines()
    assert first == "d2k-agent: solving muon"
    assert any(row.split()[:2] == ["1", "write"] for row in answer.err.splitlines())


def test_the_folder_is_named_for_time_task_and_levels_and_records_the_run(solved: tuple[Path, Answer]) -> None:
    run = the_run(solved[0])
    assert "-muon-L1-" in run.name
    record = json.loads((run / "run.json").read_text())
    assert record["config"]["levels"] == ["L1"] and record["task_slug"] == "muon"
    assert "guidance.json" in record["staged"] and record["isolation"]["kind"] in ("bubblewrap", "landlock")
    assert (run / "workspace" / "notes.txt").read_text() == "one\n"


def test_runs_list_names_outcome_turns_model_and_size(project: Path) -> None:
    (row,) = d2k("runs", "list", folder=project).out.splitlines()[1:]
    assert row.split()[:3] == [the_run(project).name, "script_ended", "2"]
    (listed,) = json.loads(d2k("runs", "list", "--json", folder=project).out)
    assert listed["model"].startswith("scripted/") and listed["bytes"] > 1000 and listed["levels"] == ["L1"]


def test_trace_show_finds_a_run_by_the_end_of_its_name(project: Path) -> None:
    short = the_run(project).name.rsplit("-", 1)[1]
    told = d2k("trace", "show", short, folder=project).out
    assert told.startswith("task ") and "hand-written script test, no model wrote it" in told.partition("\n\n")[0]
    assert "turn 1: write ok" in told and "finished: script_ended after 2 turns" in told
    lines = d2k("trace", "show", short, "--json", "--follow", folder=project).out.splitlines()
    assert json.loads(lines[0])["type"] == "conversation_started"
    assert json.loads(lines[-1])["type"] == "run_finished"


def test_trace_show_follows_a_run_until_it_ends(project: Path) -> None:
    run = RunFolder(the_run(project))
    *before, last = run.events.read_bytes().splitlines(keepends=True)
    run.events.write_bytes(b"".join(before))
    line = command("trace", "show", run.path.name, "--follow", "--json")
    with run.drive(), subprocess.Popen(line, cwd=project, env=environment(), stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            shown = [json.loads(process.stdout.readline())["seq"] for _ in before]
            assert shown == [json.loads(event)["seq"] for event in before]
            with run.events.open("ab") as log:
                log.write(last)
            assert json.loads(process.stdout.readline())["type"] == "run_finished"
            assert process.wait(timeout=30) == 0
        finally:
            process.kill()


def test_trace_show_tells_what_a_run_is_once_and_that_nothing_happened_yet(project: Path) -> None:
    name = the_run(project).name
    followed = d2k("trace", "show", name, "--follow", folder=project).out
    assert followed == d2k("trace", "show", name, folder=project).out and followed.count("turns allowed") == 1
    for empty in (lambda log: log.write_bytes(b""), lambda log: log.unlink()):
        empty(the_run(project) / "events.jsonl")
        head, _, rest = d2k("trace", "show", name, folder=project).out.partition("\n\n")
        assert "task " in head and rest == "no events yet\n"
        assert d2k("trace", "show", name, "--json", folder=project).out == ""


def test_trace_show_stops_following_a_run_that_nobody_drives(project: Path) -> None:
    run = RunFolder(the_run(project))
    whole = run.events.read_bytes().splitlines(keepends=True)
    run.events.write_bytes(b"".join(whole[:-1]))
    answer = d2k("trace", "show", run.path.name, "--follow", "--json", folder=project, limit_s=30)
    assert answer.status == 0 and len(answer.out.splitlines()) == len(whole) - 1


def test_a_replay_runs_the_tools_again_and_finds_nothing_different(project: Path) -> None:
    name = the_run(project).name
    answer = d2k("trace", "replay", name, "--json", folder=project)
    assert answer.status == 0, answer.err
    outcome = json.loads(answer.out)
    assert outcome["divergences"] == 0 and outcome["run_dir"] != str(the_run_named(project, name))
    assert (Path(outcome["run_dir"]) / "workspace" / "notes.txt").read_text() == "one\n"


def test_a_replay_is_of_the_same_target_and_no_further_run_of_the_study(project: Path) -> None:
    run = the_run(project)
    record = json.loads((run / "run.json").read_text())
    record["config"].update(arm="guided", pair="p", replicate=3, target="h100", device="cpu")
    (run / "run.json").write_text(json.dumps(record))
    assert d2k("trace", "replay", run.name, "--run-dir", "again", folder=project).status == 0
    config = json.loads((project / "again" / "run.json").read_text())["config"]
    assert [config[name] for name in ("arm", "pair", "replicate", "target", "device")] == [
        *(None, None, None),
        *("h100", "cpu"),
    ]
    part = d2k("solve", "muon", "--model", f"replay/{run}", "--turns", "1", "--quiet", folder=project)
    assert "1 of 2 recorded turns replayed" in part.out, part


def test_times_are_shown_as_the_clock_here_shows_them(project: Path) -> None:
    line = ("trace", "show", the_run(project).name)
    first = json.loads(d2k(*line, "--json", folder=project).out.splitlines()[0])
    recorded = datetime.fromisoformat(first["time"])
    head, _, told = d2k(*line, folder=project, extra={"TZ": "HERE-9"}).out.partition("\n\n")
    here = recorded.astimezone(timezone(timedelta(hours=9)))
    assert told.split()[0] == f"{here:%H:%M:%S}"
    assert f"{here:%Y-%m-%d %H:}" in head and "HERE" in head


def cut_after_the_first_turn(run: RunFolder) -> None:
    lines = run.events.read_bytes().splitlines(keepends=True)
    end = next(number for number, line in enumerate(lines, start=1) if b'"turn_closed"' in line)
    run.events.write_bytes(b"".join(lines[:end]))
    run.checkpoint.unlink()


def test_a_stop_that_a_killed_driver_never_saw_does_not_end_the_resumed_run(project: Path) -> None:
    run = RunFolder(the_run(project))
    cut_after_the_first_turn(run)
    run.request_stop()
    answer = d2k("resume", run.path.name, "--json", folder=project)
    assert answer.status == 0, answer.err
    assert json.loads(answer.out)["stop_reason"] == "script_ended" and "it is withdrawn" in answer.err
    assert not run.stop_requested()


def test_a_run_that_was_stopped_is_over_and_it_is_said_why(project: Path) -> None:
    run = RunFolder(the_run(project))
    run.events.write_bytes(run.events.read_bytes().replace(b'"script_ended"', b'"stop_requested"'))
    assert_refused(d2k("resume", run.path.name, folder=project), 2, "is over (stop_requested)", "Ctrl-C interrupts")


def the_run_named(folder: Path, name: str) -> Path:
    return folder / "traces" / "runs" / name


def test_a_finished_run_is_not_resumed(project: Path) -> None:
    answer = d2k("resume", the_run(project).name, folder=project)
    assert_refused(answer, 2, "is over (script_ended)", "d2k-agent trace show")


def test_a_run_that_is_over_cannot_be_stopped(project: Path) -> None:
    name = the_run(project).name
    ways = (f"d2k-agent trace show {name}", f"d2k-agent runs rm {name}")
    assert_refused(d2k("stop", name, folder=project), 2, "is over (script_ended)", *ways)
    assert not RunFolder(the_run(project)).stop_requested()


def test_stop_ends_an_interrupted_run_for_good_where_resume_refuses_it(project: Path) -> None:
    run = RunFolder(the_run(project))
    cut_after_the_first_turn(run)
    record = json.loads(run.run_json.read_text())
    record["isolation"]["kind"] = "another"
    record["config"].update(evaluator="ssh far-away", task="/gone", gpu="7")
    run.run_json.write_text(json.dumps(record))
    assert d2k("resume", run.path.name, folder=project).status == 2

    answer = d2k("stop", run.path.name, folder=project)
    assert answer.status == 0, answer.err
    assert "was interrupted, and is ended for good." in answer.out
    assert "The run ended: stop_requested, after 1 turn and 0 submissions." in answer.out
    assert_refused(d2k("resume", run.path.name, folder=project), 2, "is over (stop_requested)")


def test_a_running_run_is_neither_resumed_nor_removed_but_can_be_stopped(project: Path) -> None:
    run = RunFolder(the_run(project))
    name = run.path.name
    with run.drive():
        assert_refused(d2k("resume", name, folder=project), 2, "is running (process")
        assert_refused(d2k("runs", "rm", name, folder=project), 2, "is running (process", "d2k-agent stop")
        assert d2k("stop", name, folder=project).status == 0
    assert run.stop_requested() and run.exists


def test_runs_rm_removes_all_of_it(project: Path) -> None:
    run = the_run(project)
    assert d2k("runs", "rm", run.name, folder=project).status == 0
    assert not run.exists()
    assert "no runs yet" in d2k("runs", "list", folder=project).out


def test_quiet_prints_the_outcome_only_and_the_budget_of_turns_ends_a_run_of_the_papers_four_tools(
    project: Path,
) -> None:
    model = script(project, call("compile"), call("read", path="config.json"))
    options = ("--quiet", "--turns", "1", "--protocol", "paper", "--run-dir", "mine")
    answer = d2k("solve", "muon", "--model", model, *options, folder=project)
    assert answer.status == 0 and answer.err == ""
    assert answer.out.startswith("The run ended: turn_limit, after 1 turn and")
    told = d2k("trace", "show", "mine", folder=project).out
    assert "conversation started with the tools bash, read, submit, write" in told
    assert "there is no tool 'compile'" in told


def test_a_recording_of_other_circumstances_is_noted_before_it_is_replayed(tmp_path: Path) -> None:
    def first_lines(*options: str) -> list[str]:
        answer = d2k("solve", "muon", "--turns", "1", "--run-dir", "run" + "".join(options), *options, folder=tmp_path)
        assert answer.status == 0, answer.err
        return answer.out.partition("run folder")[0].splitlines()

    announced = ["d2k-agent: solving muon", "no model was named, so the sample run muon is replayed"]
    assert first_lines("--levels", "L1,L2") == announced
    *known, note = first_lines()
    assert known == announced
    assert note == "the recording was made with levels L1,L2; this run has no levels: results will differ"
