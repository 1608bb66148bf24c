"""doctor says what a machine can do, and never a key's value."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from d2k_agent.app.doctor import isolation_findings, runs_folder_finding, system_findings
from d2k_agent.app.solving import require_isolation, require_linux
from d2k_agent.errors import MachineError
from d2k_agent.reports.health import can_solve
from d2k_agent.sandbox import Isolation
from tests.cli.shell import d2k, environment

KEY = {"ANTHROPIC_API_KEY": "sk-very-secret"}
WITHOUT_TORCH = """
import sys
from d2k_agent.cli import main
status = main(["doctor", "--json"])
assert not {"torch", "triton", "litellm"} & set(sys.modules), "the controller loaded what it must not"
sys.exit(status)
"""


def test_findings_for_scripts_and_the_exit_status_agree(tmp_path: Path) -> None:
    (tmp_path / "d2k-agent.toml").write_text("turns = 9\n")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH],
        cwd=tmp_path,
        env=environment(KEY),
        capture_output=True,
        text=True,
        check=False,
    )
    health = json.loads(done.stdout)
    assert done.returncode == (0 if health["can_solve"] else 3), done.stderr
    found = {finding["name"]: finding for finding in health["findings"]}
    assert {
        "python",
        "torch",
        "triton",
        "isolation",
        "Landlock",
        "runs folder",
        "ptxas",
        "GPU",
        "disk",
        "memory",
    } <= found.keys()
    assert found["settings file"]["value"].endswith("d2k-agent.toml")
    assert found["API keys"]["value"] == "ANTHROPIC_API_KEY"
    assert "sk-very-secret" not in done.stdout + done.stderr
    assert all(finding["advice"] for finding in health["findings"] if finding["state"] != "ok")


def test_an_evaluator_that_does_not_start_is_named_and_solve_cannot_run(tmp_path: Path) -> None:
    (tmp_path / "d2k-agent").mkdir()
    (tmp_path / "d2k-agent" / "d2k-agent.toml").write_text('evaluator_python = "/nonexistent/python"\n')
    answer = d2k("doctor", folder=tmp_path, extra={"XDG_CONFIG_HOME": str(tmp_path)})
    assert answer.status == 3
    assert "/nonexistent/python" in answer.out and "solve cannot run here: evaluator missing" in answer.out


def test_another_system_than_linux_cannot_solve() -> None:
    findings = system_findings("Darwin", "25.0")
    assert not can_solve(findings) and "use Linux" in findings[0].advice
    with pytest.raises(MachineError, match=r"Darwin is not supported.*use a Linux machine"):
        require_linux("Darwin")
    require_linux("Linux")


@pytest.mark.parametrize(
    ("kind", "details", "bubblewrap", "states"),
    [
        ("bubblewrap", {"bubblewrap": "used", "landlock_abi": 7}, "/usr/bin/bwrap", ["ok", "ok", "ok"]),
        ("landlock", {"bubblewrap": "not installed", "landlock_abi": 6}, None, ["ok", "ok", "limited"]),
        ("landlock", {"bubblewrap": "No permissions", "landlock_abi": 6}, "/usr/bin/bwrap", ["ok", "ok", "limited"]),
        (
            "none",
            {"bubblewrap": "not installed", "landlock": "it does not hold", "landlock_abi": 4},
            None,
            ["missing", "ok", "limited"],
        ),
        (
            "none",
            {"bubblewrap": "No permissions", "landlock": "not available", "landlock_abi": 0},
            "/usr/bin/bwrap",
            ["missing", "missing", "limited"],
        ),
    ],
)
def test_isolation_decides_whether_solve_can_run(
    kind: str, details: dict[str, Any], bubblewrap: str | None, states: list[str]
) -> None:
    findings = isolation_findings(kind, details, bubblewrap)
    assert [finding.state for finding in findings] == states
    assert can_solve(findings) is ("missing" not in states)
    if bubblewrap and kind != "bubblewrap":
        assert "No permissions" in findings[2].value, "the reason is what the reader can act on"
    if kind == "none":
        assert str(details["landlock"]) in findings[0].value and "6.12" in findings[0].advice


def test_a_runs_folder_that_cannot_be_written_is_found(tmp_path: Path) -> None:
    assert runs_folder_finding(tmp_path / "traces" / "runs").state == "ok"
    (tmp_path / "file").touch()
    finding = runs_folder_finding(tmp_path / "file" / "runs")
    assert (finding.state, finding.value) == ("missing", f"{tmp_path / 'file'} is not a folder")


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_closed_current_folder_is_found(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert runs_folder_finding(tmp_path / "traces" / "runs").value == f"{tmp_path} cannot be written"


def test_without_isolation_a_run_does_not_start_unless_that_is_accepted() -> None:
    nothing = Isolation("none")
    with pytest.raises(MachineError, match="nothing was started; `d2k-agent doctor` says"):
        require_isolation(nothing, unsafe_no_sandbox=False)
    assert require_isolation(nothing, unsafe_no_sandbox=True) is nothing
