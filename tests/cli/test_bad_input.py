"""Bad input: a sentence that says what to do, the exit status, no traceback, and nothing left behind."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from d2k_agent.catalog import samples_dir
from d2k_agent.cli.parsing import Parser
from d2k_agent.cli.solve import add_budgets
from d2k_agent.isolation import gpu_devices
from tests.cli.shell import assert_refused, d2k


def script(folder: Path) -> str:
    """A model that says one thing."""
    path = folder / "script.json"
    path.write_text('{"name": "scripted/one", "replies": [{"content": "done"}]}')
    return f"scripted/{path}"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["output=0"], "'output=0' would end the run before its first request"),
        (["output=-5"], "'output=-5' is no budget of tokens"),
        (["output=5", "output=300"], "'output=300' is a second budget of output, beside 5; give one"),
        (["output=5", "total=9", "output=5"], "'output=5' is a second budget"),
    ],
)
def test_a_budget_of_tokens_says_why_it_cannot_be(
    values: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = Parser()
    add_budgets(parser)
    with pytest.raises(SystemExit) as ended:
        parser.parse_args([word for value in values for word in ("--budget-tokens", value)])
    assert ended.value.code == 2 and words in capsys.readouterr().err
    assert parser.parse_args(["--budget-tokens", "output=5", "--budget-tokens", "total=9"]).budget_tokens == {
        "output": 5,
        "total": 9,
    }


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("solve", "no_such_task"), ("no task 'no_such_task'", "muon")),
        (("evaluate", "no_such_task", "x.py"), ("no task 'no_such_task'",)),
        (("solve", "muon", "--levels", "L7"), ("no level 'L7'",)),
        (("solve", "muon", "--levels", "L2"), ("--any-levels",)),
        (("solve", "muon", "--turns", "0"), ("turns must be greater than 0",)),
        (("solve", "muon", "--model", "anthropic/claude-opus-4-8"), ("ANTHROPIC_API_KEY",)),
        (("solve", "muon", "--model", "no-provider-has-this"), ("no-provider-has-this", "--api-base")),
        (("solve", "muon", "--model", "openai/x", "--api-base", "notaurl"), ("'notaurl' is no address", "http://")),
        (("solve", "muon", "--model", "openai/x", "--reasoning-effort", "bogus"), ("'bogus'", "'minimal'")),
        (("solve", "muon", "--budget-tokens", "input=5"), ("'input=5' is no budget of tokens", "such as output=")),
        (("solve", "muon", "--budget-tokens", "output=5"), ("--budget-tokens needs --model",)),
        (("solve", "muon", "--budget-wall-s", "0"), ("budget-wall-s must be greater than 0",)),
        (("solve", "muon", "--model", "openai/x", "--models-file", "no.toml"), ("models file no.toml cannot be read",)),
        (("solve", "muon", "--model", "scripted/none.json"), ("none.json",)),
        (("solve", "muon", "--model", "replay/none"), ("no recorded run 'none'",)),
        (("evaluate", "muon", "none.py"), ("no file", "none.py")),
        (("evaluate", "muon", "none.py", "--workload", "huge"), ("no workload 'huge'",)),
        *(
            ((*line, "--gpu", "0", "--device", "cpu"), ("gpu 0 and device cpu contradict each other", "leave one"))
            for line in (("solve", "muon"), ("evaluate", "muon", "none.py"), ("score", "none"))
        ),
        (("resume", "none"), ("no run 'none'",)),
        (("stop", "none"), ("no run 'none'",)),
        (("runs", "rm", "none"), ("no run 'none'",)),
        (("trace", "show", "none"), ("no run 'none'",)),
        (("trace", "replay", "none"), ("no run 'none'",)),
    ],
)
def test_what_does_not_exist_is_named_and_nothing_is_made(
    tmp_path: Path, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    answer = d2k(*arguments, folder=tmp_path)
    assert_refused(answer, 2, *words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "line",
    [
        ("solve", "no_such_task"),
        ("solve", "muon", "--levels", "L7"),
        ("solve", "muon", "--model", "scripted/none.json"),
        ("resume", "none"),
        ("trace", "replay", "none"),
    ],
)
def test_what_is_refused_at_once_is_not_announced(tmp_path: Path, line: tuple[str, ...]) -> None:
    answer = d2k(*line, folder=tmp_path)
    assert (answer.status, answer.out, len(answer.err.splitlines())) == (2, "", 1)


@pytest.mark.skipif(bool(gpu_devices()), reason="a GPU is here")
@pytest.mark.parametrize("line", [("solve", "muon"), ("evaluate", "muon", "x.py"), ("compile", "muon", "x.py")])
def test_a_gpu_that_is_not_here_is_refused_before_anything_starts(tmp_path: Path, line: tuple[str, ...]) -> None:
    (tmp_path / "x.py").write_text("def run(G, steps=5): ...\n")
    answer = d2k(*line, "--device", "cuda", folder=tmp_path)
    assert_refused(answer, 2, "device cuda is not to be had", "--device cpu")
    assert [path.name for path in tmp_path.iterdir()] == ["x.py"]


@pytest.mark.parametrize(
    "option",
    [
        ("--api-base", "http://127.0.0.1:9/v1"),
        ("--temperature", "0"),
        ("--max-tokens", "9"),
        ("--reasoning-effort", "low"),
        ("--timeout", "9"),
    ],
)
def test_how_to_ask_a_model_is_refused_where_none_is_asked(tmp_path: Path, option: tuple[str, str]) -> None:
    line = ("solve", "muon", *option)
    assert_refused(d2k(*line, folder=tmp_path), 2, f"{option[0]} needs --model")
    assert list(tmp_path.iterdir()) == []
    answer = d2k(*line, "--model", script(tmp_path), folder=tmp_path)
    assert_refused(answer, 2, f"{option[0]} means nothing to scripted/", "leave it out")
    assert [path.name for path in tmp_path.iterdir()] == ["script.json"]


def test_how_to_ask_models_may_stand_in_a_settings_file_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "d2k-agent.toml").write_text("temperature = 0.5\n")
    assert d2k("solve", "muon", "--model", script(tmp_path), folder=tmp_path).status == 0


def test_a_baseline_that_does_not_exist_is_named_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "solution.py").write_text("def run(G, steps=5): ...\n")
    answer = d2k("evaluate", "muon", "solution.py", "--baseline", "none.py", folder=tmp_path)
    assert_refused(answer, 2, "no file none.py; name the baseline's source file")


def a_folder(path: Path) -> None:
    path.mkdir()


def a_folder_of_programs(path: Path) -> None:
    path.mkdir()
    (path / "expert.py").write_text("")


def a_binary(path: Path) -> None:
    path.write_bytes(b"\x7fELF\xff\x00\x01")


def zero_bytes(path: Path) -> None:
    path.write_bytes(b"import torch\0")


def too_large(path: Path) -> None:
    path.write_text("# padding\n" * 120_000)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (a_folder, ("is a folder", "solution.py/solution.py")),
        (a_folder_of_programs, ("is a folder", "solution.py/expert.py")),
        (a_binary, ("is not UTF-8 text (byte 4)",)),
        (zero_bytes, ("zero byte",)),
        (too_large, ("larger than 1 MiB",)),
    ],
)
def test_a_solution_that_cannot_be_one_is_refused(
    tmp_path: Path, make: Callable[[Path], None], words: tuple[str, ...]
) -> None:
    make(tmp_path / "solution.py")
    assert_refused(d2k("evaluate", "muon", "solution.py", folder=tmp_path), 2, *words)


def test_a_folder_that_is_no_run_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    for command in (("resume", "plain"), ("trace", "show", "plain"), ("stop", "plain"), ("runs", "rm", "plain")):
        assert_refused(d2k(*command, folder=tmp_path), 2, "no run's folder", "d2k-agent runs list")
    assert (tmp_path / "plain").is_dir()


def test_a_run_folder_in_use_is_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("precious")
    answer = d2k("solve", "muon", "--model", script(tmp_path), "--run-dir", "mine", folder=tmp_path)
    assert_refused(answer, 2, "mine is not empty")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes.txt"]


def test_a_damaged_run_is_reported_and_can_still_be_removed(tmp_path: Path) -> None:
    run = tmp_path / "traces" / "runs" / "broken"
    run.mkdir(parents=True)
    (run / "run.json").write_text('{"format": 1, "config"')
    assert_refused(d2k("resume", "broken", folder=tmp_path), 3, "run.json cannot be read")
    assert_refused(d2k("trace", "show", "broken", folder=tmp_path), 3, "run.json cannot be read")
    assert "damaged" in d2k("runs", "list", folder=tmp_path).out
    assert d2k("runs", "rm", "broken", folder=tmp_path).status == 0
    assert not run.exists()


def test_a_run_of_another_format_is_refused_by_every_command_that_reads_it(tmp_path: Path) -> None:
    run = tmp_path / "traces" / "runs" / "newer"
    shutil.copytree(samples_dir() / "muon", run)
    (run / "run.json").write_text((run / "run.json").read_text().replace('"format": 1', '"format": 9'))
    commands = (("trace", "show"), ("trace", "replay"), ("export",), ("score",), ("resume",), ("stop",), ("cost",))
    for words in commands:
        assert_refused(d2k(*words, "newer", folder=tmp_path), 2, "is a run of format 9", "reads format 1")
    assert "newer" in d2k("runs", "list", folder=tmp_path).out


def test_a_wrong_settings_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "d2k-agent.toml").write_text("turns = 'many'\n")
    assert_refused(d2k("solve", "muon", folder=tmp_path), 2, "d2k-agent.toml", "turns must be a whole number")
