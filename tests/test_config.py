"""Settings files and the command line become one configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from d2k_agent.app.choosing_model import worded_as_recorded
from d2k_agent.config import PROTOCOLS, TARGETS, ModelOptions, RunConfig, Settings, read_settings
from d2k_agent.contract.wire import from_data, to_data
from d2k_agent.errors import UsageError
from d2k_agent.evaluator.compilation import targets


def test_the_command_line_wins_over_the_file_and_the_file_over_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "d2k-agent.toml"
    path.write_text('model = "openai/x"\nturns = 20\ntimeout = 30\n')
    config = (
        Settings(turns=5, temperature=0.0).over(read_settings(path, of_user=True)).resolve("muon", "openai/x", ("L1",))
    )
    assert config.turns == 5
    assert config.model_options == ModelOptions(timeout_s=30.0, temperature=0.0)
    assert config.protocol == "default" and config.levels == ("L1",)


def test_a_gpu_that_is_named_takes_the_place_of_a_cpu_that_a_file_names_and_the_other_way_round() -> None:
    gpu, cpu = Settings(gpu="0"), Settings(device="cpu")
    assert (gpu.over(cpu).gpu, gpu.over(cpu).device) == ("0", None)
    assert (cpu.over(gpu).gpu, cpu.over(gpu).device) == (None, "cpu")
    assert (gpu.over(Settings(device="cuda")).gpu, gpu.over(Settings(device="cuda")).device) == ("0", "cuda")


def test_the_protocol_decides_how_a_model_is_told_and_a_recording_keeps_its_wording() -> None:
    told = {name: Settings(protocol=name).resolve("muon", "scripted/a.json", ()).wording for name in PROTOCOLS}
    assert told == {"default": "brief", "paper": "tables", "efficient": "brief"}
    new = Settings().resolve("muon", "replay/muon", ("L1", "L2"))
    assert worded_as_recorded(new).wording == "tables", "the sample was recorded when there was no other"
    scripted = Settings().resolve("muon", "scripted/a.json", ())
    assert worded_as_recorded(scripted) is scripted


def test_a_configuration_survives_json() -> None:
    config = Settings(turns=3, arm="guided", replicate=2).resolve("muon", "scripted/a.json", ("L1", "L2"))
    assert from_data(RunConfig, to_data(config)) == config


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("modle = 'x'", "unknown key 'modle'"),
        ("turns = 'many'", "turns must be a whole number, not 'many'"),
        ("turns = true", "turns must be a whole number"),
        ("unsafe_no_sandbox = true", "unknown key 'unsafe_no_sandbox'"),
        ("target = 'a100'", "target 'a100' does not exist; choose one of b200"),
        ("gpu = 'first'", "gpu 'first' is no index and no UUID; give one that `nvidia-smi -L` shows"),
        ("gpu = '0'\ndevice = 'cpu'", "gpu 0 and device cpu contradict each other"),
        ("evaluator = 'ssh \"host'", "evaluator 'ssh \"host' cannot be split into words"),
        ("model = ", "is no TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_its_path_and_the_reason(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "d2k-agent.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as refusal:
        read_settings(path, of_user=True)
    assert complaint in str(refusal.value) and str(path) in str(refusal.value)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "d2k-agent.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="no TOML"):
        read_settings(path, of_user=True)


@pytest.mark.parametrize("key", ["evaluator_python", "evaluator"])
def test_only_the_users_own_file_may_name_a_program(tmp_path: Path, key: str) -> None:
    path = tmp_path / "d2k-agent.toml"
    path.write_text(f'{key} = "./python"\n')
    assert getattr(read_settings(path, of_user=True), key) == "./python"
    with pytest.raises(UsageError, match=rf"d2k-agent.toml: {key} may stand in your own.*move it there"):
        read_settings(path, of_user=False)


def test_a_run_keeps_its_gpu_and_its_evaluator() -> None:
    settings = Settings(gpu="1", evaluator="srun --gres=gpu:1")
    config = from_data(RunConfig, to_data(settings.resolve("muon", "m", ())))
    assert (config.gpu, config.evaluator) == ("1", "srun --gres=gpu:1")
    assert Settings(evaluator="").over(settings).resolve("muon", "m", ()).evaluator is None, "empty text: this machine"


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (Settings(turns=0), "--turns must be greater than 0"),
        (Settings(timeout=-1.0), "timeout must be greater than 0"),
        (Settings(timeout=float("nan")), "timeout must be greater than 0"),
        (Settings(max_tokens=0), "max-tokens must be greater than 0"),
        (Settings(tool_output_chars=150), "--tool-output-chars must be at least 500, not 150"),
    ],
)
def test_values_that_no_run_can_have_are_refused(settings: Settings, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        settings.resolve("muon", "m", ())


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("protocol", "protocol 'neither' does not exist; choose one of default, paper"),
        ("device", "device 'neither' does not exist; choose one of auto, cpu, cuda"),
        ("target", "target 'neither' does not exist; choose one of b200, b300, h100, h200"),
        ("reasoning_effort", "reasoning-effort 'neither' does not exist; choose one of none, minimal, low"),
    ],
)
def test_a_name_that_does_not_exist_is_refused_with_those_that_do(name: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        Settings(**{name: "neither"})  # type: ignore[arg-type]


def test_the_targets_are_those_that_the_evaluator_knows() -> None:
    assert sorted(TARGETS) == sorted(targets.TARGETS)
