"""`d2k-agent solve ./my_task` on a folder that nobody shipped: begun with `tasks new`, its guidance inside."""

from __future__ import annotations

from pathlib import Path

import pytest

from d2k_agent.records import VerdictReached, read_trace
from tests.cli.runs import call, script
from tests.cli.shell import d2k

pytestmark = pytest.mark.slow


def test_a_task_of_ones_own_is_solved_from_its_folder(tmp_path: Path) -> None:
    assert d2k("tasks", "new", "my_task", folder=tmp_path).status == 0
    expert = (tmp_path / "my_task" / "guidance" / "expert.py").read_text()
    handed_in = call("write", path="solution.py", content=expert)
    handed_in["tool_calls"].append({"name": "submit", "arguments": {}})
    look = call("bash", command="ls -a; cat guidance.json")
    model = script(tmp_path, look, handed_in)
    options = ("--levels", "L1", "--model", model, "--run-dir", "run", "--device", "cpu")
    answer = d2k("solve", "./my_task", *options, folder=tmp_path, limit_s=300)
    assert answer.status == 0, answer
    trace = read_trace(tmp_path / "run")
    assert [event.verdict.status.value for event in trace.events if isinstance(event, VerdictReached)] == ["untimed"]
    assert trace.run.task_slug == "my_task"
    staged = {path.name for path in (tmp_path / "run" / "workspace").iterdir()}
    assert {"task_description.md", "guidance.json", "solution.py"} <= staged
    assert not {"hidden", "guidance", "expert.py", "baseline.py", "wrong.toml"} & staged
