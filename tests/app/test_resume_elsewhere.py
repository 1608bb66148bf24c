"""A run is resumed where its evaluator was, with the GPU that it was judged on, and no program by its own word."""

from __future__ import annotations

from pathlib import Path

import pytest

from d2k_agent.app.solving import replay, resume
from d2k_agent.cli.progress import Progress, SilentScreen
from d2k_agent.config import Settings
from d2k_agent.errors import UsageError
from d2k_agent.isolation import gpu_devices
from tests.app.ended_run import ended_run
from tests.app.test_scoring import around


def test_the_program_that_a_record_names_is_not_run_unless_the_user_names_it(tmp_path: Path) -> None:
    touch = f"touch {tmp_path / 'harm'}"
    run = ended_run(tmp_path, over=False, evaluator=touch)
    assert run.read_record().config.gpu == "1", "a run keeps its GPU"
    for given in (None, "", "ssh host"):
        with pytest.raises(UsageError, match="results of two machines are not to be mixed; resume it with --evaluator"):
            resume(
                around(tmp_path), "run", Settings(evaluator=given), Progress(SilentScreen()), str(tmp_path / "scaling")
            )
    assert not (tmp_path / "harm").exists()


def test_a_run_that_was_judged_here_is_not_resumed_elsewhere(tmp_path: Path) -> None:
    ended_run(tmp_path, over=False)
    with pytest.raises(UsageError, match="on its own machine"):
        resume(
            around(tmp_path), "run", Settings(evaluator="ssh host"), Progress(SilentScreen()), str(tmp_path / "scaling")
        )


@pytest.mark.skipif(bool(gpu_devices()), reason="a GPU is here")
@pytest.mark.parametrize("asked", [{"device": "cuda"}, {"gpu": "0"}])
def test_a_run_that_is_judged_on_a_gpu_is_not_resumed_without_one(asked: dict[str, str], tmp_path: Path) -> None:
    run = ended_run(tmp_path, over=False, **asked)
    before = run.events.read_bytes()
    with pytest.raises(UsageError, match="this machine has none; resume it on one that has, or start a new run"):
        resume(around(tmp_path), "run", Settings(), Progress(SilentScreen()), str(tmp_path / "scaling"))
    assert run.events.read_bytes() == before


@pytest.mark.skipif(bool(gpu_devices()), reason="a GPU is here")
def test_a_run_on_a_gpu_is_replayed_where_there_is_one_or_on_the_cpu(tmp_path: Path) -> None:
    ended_run(tmp_path, device="cuda")
    with pytest.raises(UsageError, match="use --device cpu"):
        replay(around(tmp_path), "run", Settings(run_dir="again"), Progress(SilentScreen()), str(tmp_path / "scaling"))
    assert not (tmp_path / "again").exists()
    assert replay(
        around(tmp_path),
        "run",
        Settings(run_dir="again", device="cpu"),
        Progress(SilentScreen()),
        str(tmp_path / "scaling"),
    )
