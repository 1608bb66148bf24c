"""A run's folder may be a stranger's: what it names is not run and gets no key, unless the user names it too."""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from d2k_agent.app.exporting import export_run
from d2k_agent.app.recorded import resume_command
from d2k_agent.app.scoring import score_run
from d2k_agent.app.solving import replay, resume
from d2k_agent.cli.progress import Progress, SilentScreen
from d2k_agent.config import Settings
from d2k_agent.errors import MachineError, UsageError
from d2k_agent.records import RunFolder
from tests.app.ended_run import ended_run
from tests.app.test_scoring import around
from tests.cli.shell import assert_refused, d2k

CPU = Settings(device="cpu")


def quiet() -> Progress:
    return Progress(SilentScreen())


def record(run: RunFolder, **changed: object) -> None:
    """Write run.json anew, as whoever hands the folder on can."""
    data = json.loads(run.run_json.read_text())
    run.run_json.write_text(json.dumps(data | {"config": data["config"] | changed}))


USES: dict[str, Callable[[Path], object]] = {
    "score": lambda folder: score_run(around(folder), "run", CPU, lambda _: None),
    "export": lambda folder: export_run(around(folder), "run", None, CPU, lambda _: None),
    "replay": lambda folder: replay(around(folder), "run", Settings(run_dir="again", device="cpu"), quiet()),
    "resume": lambda folder: resume(around(folder), "run", Settings(), quiet()),
}


@pytest.mark.parametrize("name", USES)
def test_the_task_that_a_record_names_is_not_run_unless_the_user_names_it(name: str, tmp_path: Path) -> None:
    run = ended_run(tmp_path, over=name != "resume")
    with pytest.raises(UsageError, match="Python is run with your own rights; look at it, then name it with --task "):
        USES[name](tmp_path)
    assert not (tmp_path / "again").exists() and not (tmp_path / "run-bundle").exists()
    assert {path.name for path in run.path.iterdir()} <= {
        "run.json",
        "workspace",
        "candidates",
        "driver.lock",
        "events.jsonl",
    }


@pytest.mark.parametrize("task", ["tasks/scaling", "./tasks/scaling", "", "..", "scaling"])
def test_a_folder_that_lies_here_is_no_task_that_ships(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ended_run(tmp_path)
    (tmp_path / "tasks").mkdir()
    (tmp_path / "scaling").rename(tmp_path / "tasks" / "scaling")
    (tmp_path / "scaling").symlink_to("tasks/scaling")
    record(run, task=task)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="the task of run does not ship"):
        USES["score"](tmp_path)


def test_another_task_than_the_runs_is_not_taken_for_it(tmp_path: Path) -> None:
    ended_run(tmp_path)
    for use in (
        partial(score_run, around(tmp_path), "run", CPU, lambda _: None),
        partial(export_run, around(tmp_path), "run", None, CPU, lambda _: None),
        partial(replay, around(tmp_path), "run", Settings(run_dir="again", device="cpu"), quiet()),
    ):
        with pytest.raises(UsageError, match="muon is not the task that run began with"):
            use("muon")


def test_every_command_that_takes_up_a_run_takes_its_task(tmp_path: Path) -> None:
    ended_run(tmp_path)
    for command in (("score",), ("export",), ("trace", "replay")):
        assert_refused(d2k(*command, "run", folder=tmp_path), 2, f"name it with --task {tmp_path / 'scaling'}")
        other = d2k(*command, "run", "--task", "muon", folder=tmp_path)
        assert_refused(other, 2, "muon is not the task that run began with")
    ended_run(tmp_path / "2", over=False)
    assert_refused(d2k("resume", "run", folder=tmp_path / "2"), 2, "name it with --task")
    assert_refused(d2k("resume", "run", "--task", "muon", folder=tmp_path / "2"), 2, "muon is not the task")


EVIL = "https://evil.example/v1"


@pytest.mark.parametrize(
    ("model", "address", "given", "words"),
    [
        ("openai/x", EVIL, None, f"the server {EVIL}.*resume it with --api-base {EVIL}"),
        ("openai/x", EVIL, "http://mine/v1", f"the server {EVIL}"),
        ("openai/x", None, "http://mine/v1", "the provider's own server.*--api-base ''"),
        (f"huggingface/{EVIL}", None, None, f"the server {EVIL}"),
        (f"huggingface/{EVIL}", "http://mine/v1", "http://mine/v1", f"names http://mine/v1 and {EVIL}"),
    ],
)
def test_the_key_goes_to_no_server_that_the_user_did_not_name(
    model: str, address: str | None, given: str | None, words: str, tmp_path: Path
) -> None:
    run = ended_run(tmp_path, over=False)
    before = run.events.read_bytes()
    record(run, model=model, model_options={"api_base": address})
    with pytest.raises(UsageError, match=words):
        resume(around(tmp_path), "run", Settings(api_base=given), quiet(), str(tmp_path / "scaling"))
    assert run.events.read_bytes() == before


def test_resume_takes_the_address_that_its_refusal_asks_for(tmp_path: Path) -> None:
    run = ended_run(tmp_path, over=False)
    address = "http://127.0.0.1:9/v1"
    record(run, model="anthropic/x", model_options={"api_base": address})
    words = ("resume", "run", "--task", str(tmp_path / "scaling"))
    assert_refused(d2k(*words, folder=tmp_path), 2, f"with --api-base {address}")
    assert f"--api-base {address}" in resume_command(run.read_record().config, Path("run"))
    assert "began under the isolation" in d2k(*words, "--api-base", address, folder=tmp_path).err, "the next check"


def test_the_sandbox_is_given_up_by_the_user_alone(tmp_path: Path) -> None:
    run = ended_run(tmp_path, over=False)
    words = ("resume", "run", "--task", str(tmp_path / "scaling"))
    assert_refused(d2k(*words, "--unsafe-no-sandbox", folder=tmp_path), 2, "began with a sandbox and keeps it")
    record(run, unsafe_no_sandbox=True)
    assert_refused(d2k(*words, folder=tmp_path), 2, "resume it with --unsafe-no-sandbox if you trust it")
    assert "began under the isolation" in d2k(*words, "--unsafe-no-sandbox", folder=tmp_path).err, "the next check"
    assert resume_command(run.read_record().config, Path("run")).endswith(" --unsafe-no-sandbox")


@pytest.mark.parametrize("name", ["workspace", "events.jsonl", "checkpoint.sqlite", "scores", "driver.lock"])
def test_nothing_is_written_through_a_link(name: str, tmp_path: Path) -> None:
    run = ended_run(tmp_path, over=False)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "key").write_text("precious")
    link, there = run.path / name, tmp_path / "mine"
    if name == "events.jsonl":
        there = tmp_path / "mine" / "events"
        link.rename(there)
    elif name == "driver.lock":
        there = tmp_path / "mine" / "key"
    if link.is_dir():
        link.rmdir()
    link.unlink(missing_ok=True)
    link.symlink_to(there)
    before = {path: path.read_bytes() for path in (tmp_path / "mine").iterdir()}
    with pytest.raises(UsageError, match=f"{name} is a link"):
        resume(around(tmp_path), "run", Settings(), quiet(), str(tmp_path / "scaling"))
    with pytest.raises(UsageError, match=f"{name} is a link"):
        score_run(around(tmp_path), "run", CPU, lambda _: None, str(tmp_path / "scaling"))
    if name == "driver.lock":
        with pytest.raises(MachineError), run.drive():
            pass
    assert {path: path.read_bytes() for path in (tmp_path / "mine").iterdir()} == before


def test_the_way_on_after_an_interruption_names_what_is_not_taken_from_the_folder(tmp_path: Path) -> None:
    config = ended_run(tmp_path, over=False, evaluator="ssh host").read_record().config
    words = shlex.split(resume_command(config, Path("run")))
    assert words[:3] == ["d2k-agent", "resume", "run"]
    assert words[3:] == ["--task", str(tmp_path / "scaling"), "--evaluator", "ssh host"]
    plain = dataclasses.replace(config, task="muon", evaluator=None)
    assert resume_command(plain, Path("run")) == "d2k-agent resume run"


def test_resume_names_all_that_is_missing_at_once_and_what_it_names_is_enough(tmp_path: Path) -> None:
    run = ended_run(tmp_path, over=False, evaluator="ssh host", unsafe_no_sandbox=True)
    record(run, model="openai/x", model_options={"api_base": EVIL})
    for given, named in ((Settings(), None), (Settings(evaluator="ssh other"), str(tmp_path / "scaling"))):
        with pytest.raises(UsageError) as refusal:
            resume(around(tmp_path), "run", given, quiet(), named)
        told = str(refusal.value)
        assert ("does not ship" in told) is (named is None)
        for words in ("through 'ssh host'", f"the server {EVIL}, and your key", "gave up the sandbox"):
            assert words in told
        line = shlex.join(
            ["d2k-agent", "resume", "run", "--task", str(tmp_path / "scaling"), "--evaluator", "ssh host"]
        )
        assert f"`{line} --api-base {EVIL} --unsafe-no-sandbox`" in told
    enough = Settings(evaluator="ssh host", api_base=EVIL, unsafe_no_sandbox=True)
    with pytest.raises(UsageError, match="began under the isolation"):
        resume(around(tmp_path), "run", enough, quiet(), str(tmp_path / "scaling"))
