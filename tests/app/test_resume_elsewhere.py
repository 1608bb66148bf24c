"""A run whose evaluator was reached through a prefix: resumed the same way or not at all, and never by its own word."""

from __future__ import annotations

from pathlib import Path

import pytest

from d2k_agent.app.solving import resume
from d2k_agent.cli.progress import Progress, SilentScreen
from d2k_agent.config import Settings
from d2k_agent.errors import UsageError
from tests.app.ended_run import ended_run
from tests.app.test_scoring import around


def test_the_program_that_a_record_names_is_not_run_unless_the_user_names_it(tmp_path: Path) -> None:
    touch = f"touch {tmp_path / 'harm'}"
    run = ended_run(tmp_path, over=False, evaluator=touch)
    assert run.read_record().config.gpu == "1", "a run keeps its GPU"
    for given in (None, "", "ssh host"):
        with pytest.raises(UsageError, match="results of two machines are not to be mixed; resume it with --evaluator"):
            resume(around(tmp_path), "run", Settings(evaluator=given), Progress(SilentScreen()))
    assert not (tmp_path / "harm").exists()


def test_a_run_that_was_judged_here_is_not_resumed_elsewhere(tmp_path: Path) -> None:
    ended_run(tmp_path, over=False)
    with pytest.raises(UsageError, match="on its own machine"):
        resume(around(tmp_path), "run", Settings(evaluator="ssh host"), Progress(SilentScreen()))
