"""model-latency through the real command: what is refused before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from d2k_agent.cli.entry import main
from tests.cli.shell import Answer, assert_refused


def test_a_task_for_several_ranks_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "solution.py").write_text("def run(x): ...\n")
    status = main(["model-latency", "ep_dispatch_fp8", "solution.py"])
    answer = Answer(status, *capsys.readouterr())
    assert_refused(answer, 2, "ep_dispatch_fp8 is for several ranks", "`d2k-agent inspect ep_dispatch_fp8 FILE`")
