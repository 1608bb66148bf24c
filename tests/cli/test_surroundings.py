"""What a command is given: settings files by precedence, keys that go no further than the model."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from d2k_agent.app.launching import evaluator_command, require_gpu
from d2k_agent.app.surroundings import Surroundings
from d2k_agent.config import Settings
from d2k_agent.errors import UsageError
from d2k_agent.isolation import gpu_devices
from d2k_agent.models.faults import Mask


def surroundings(folder: Path, **environ: str) -> Surroundings:
    return Surroundings(folder / "here", environ, folder / "config", "/usr/bin/python3")


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_folders_settings_file_wins_over_the_users_and_the_command_line_over_both(tmp_path: Path) -> None:
    around = surroundings(tmp_path)
    assert around.settings_file() is None and around.settings(Settings(turns=1)).turns == 1
    users = write(tmp_path / "config" / "d2k-agent" / "d2k-agent.toml", "turns = 2\nmodel = 'users'\n")
    assert around.settings_file() == users and around.settings(Settings()).turns == 2
    write(tmp_path / "here" / "d2k-agent.toml", "turns = 3\n")
    assert around.settings(Settings()).turns == 3
    assert around.settings(Settings()).model is None, "one file holds, they are not mixed"
    assert around.settings(Settings(turns=4)).turns == 4


def test_a_folder_names_no_program_and_does_not_hide_the_users(tmp_path: Path) -> None:
    around = surroundings(tmp_path)
    here = write(tmp_path / "here" / "d2k-agent.toml", "evaluator_python = './python'\n")
    with pytest.raises(UsageError, match="evaluator_python may stand in your own"):
        around.settings(Settings())
    here.write_text("turns = 3\n")
    write(tmp_path / "config" / "d2k-agent" / "d2k-agent.toml", "turns = 2\nevaluator_python = '/opt/python'\n")
    settings = around.settings(Settings())
    assert (settings.turns, settings.evaluator_python) == (3, "/opt/python")


@pytest.mark.parametrize(
    "name", ["WATSONX_APIKEY", "AWS_BEARER_TOKEN_BEDROCK", "OPENAI_API_KEY_2", "OPENAI_API_KEY2", "AZURE_CLIENT_SECRET"]
)
def test_what_goes_to_the_provider_as_a_key_is_masked(tmp_path: Path, name: str) -> None:
    keys = surroundings(
        tmp_path, **{name: "vt-0123456789", "MAX_TOKENS": "100000", "KEYBOARD": "german"}
    ).provider_keys()
    assert keys == {name: "vt-0123456789"}
    assert Mask(keys)("refused: vt-0123456789") == f"refused: <{name}>"


def test_runs_lie_where_the_settings_say(tmp_path: Path) -> None:
    around = surroundings(tmp_path)
    assert around.runs_folder(Settings()) == tmp_path / "here" / "traces" / "runs"
    assert around.runs_folder(Settings(runs_folder="/data/runs")) == Path("/data/runs")


def test_an_evaluator_gets_programs_and_gpus_and_no_key(tmp_path: Path) -> None:
    around = surroundings(
        tmp_path,
        PATH="/usr/bin",
        CUDA_VISIBLE_DEVICES="1",
        OPENAI_API_KEY="sk-1",
        HF_TOKEN="hf-2",
        AWS_SECRET_ACCESS_KEY="aws-3",
        D2K_PRIVATE="4",
        EMPTY_API_KEY="",
    )
    assert around.evaluator_environment() == {"PATH": "/usr/bin", "CUDA_VISIBLE_DEVICES": "1"}
    assert around.evaluator_environment(through_prefix=True) == around.evaluator_environment()
    assert around.provider_keys() == {"OPENAI_API_KEY": "sk-1", "HF_TOKEN": "hf-2", "AWS_SECRET_ACCESS_KEY": "aws-3"}


def test_what_leads_elsewhere_gets_what_it_needs_to_get_there(tmp_path: Path) -> None:
    around = surroundings(tmp_path, PATH="/bin", SSH_AUTH_SOCK="/run/agent", SLURM_JOB_ID="7", SLURM_JWT="secret")
    assert around.evaluator_environment() == {"PATH": "/bin"}
    assert around.evaluator_environment(through_prefix=True) == {
        "PATH": "/bin",
        "SSH_AUTH_SOCK": "/run/agent",
        "SLURM_JOB_ID": "7",
    }


def test_a_prefix_names_its_interpreter_on_the_other_side(tmp_path: Path) -> None:
    around = surroundings(tmp_path)
    assert evaluator_command(around, Settings()) == ((), "/usr/bin/python3")
    assert evaluator_command(around, Settings(evaluator="ssh 'a b'")) == (("ssh", "a b"), "python3")
    assert evaluator_command(around, Settings(evaluator="ssh a", evaluator_python="/v/python"))[1] == "/v/python"


def test_a_gpu_that_is_hidden_here_is_refused_before_anything_starts(tmp_path: Path) -> None:
    around = surroundings(tmp_path, CUDA_VISIBLE_DEVICES="3")
    with pytest.raises(UsageError, match="gpu 1 is not to be had"):
        require_gpu(around, Settings(gpu="1"))
    with pytest.raises(UsageError, match="hides every GPU; unset it"):
        require_gpu(surroundings(tmp_path, CUDA_VISIBLE_DEVICES=""), Settings(device="cuda"))


@pytest.mark.parametrize("wish", [Settings(gpu="0"), Settings(device="cuda")])
def test_a_gpu_is_refused_where_there_is_none_and_let_pass_where_nobody_knows(tmp_path: Path, wish: Settings) -> None:
    around = surroundings(tmp_path)
    require_gpu(around, dataclasses.replace(wish, evaluator="ssh host"))
    require_gpu(around, Settings(device="auto"))
    if gpu_devices():
        require_gpu(around, wish)
    else:
        with pytest.raises(UsageError, match=r"this machine has no NVIDIA GPU; .* to judge on its CPU"):
            require_gpu(around, wish)
