"""Groups E07 and E08a: no key of the controller and no withheld text can be found from a command."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CASES = Path(__file__).parent / "cases"
ROOT = Path(__file__).parents[2]
KEYS = {
    "OPENAI_API_KEY": "sk-d2k-CANARY-1",
    "ANTHROPIC_API_KEY": "sk-d2k-CANARY-2",
    "LITELLM_MASTER_KEY": "sk-d2k-CANARY-3",
    "MY_GATEWAY_CREDENTIAL": "d2k-CANARY-4",
    "HTTPS_PROXY": "http://u:d2k-CANARY-5@127.0.0.1:9",
}
CONTROLLER = """
import json, sys
from pathlib import Path
from d2k_agent.isolation import hide_process
from d2k_agent.sandbox import Isolation, Sandbox
hide_process()
wall, workspace, script = sys.argv[1:]
completed = Sandbox(Isolation(wall), Path(workspace)).run(
    ["/bin/bash", "-s"], stdin=Path(script).read_bytes(), limit_s=60, output_bytes=100_000)
print(json.dumps({"out": completed.stdout.head.decode(), "err": completed.stderr.head.decode(),
                  "status": completed.returncode, "timed_out": completed.timed_out}))
"""


def run_script(wall: str, workspace: Path, script: Path, **kwargs: object) -> str:
    """What `script` prints inside a sandbox, driven by a controller process of its own that holds keys."""
    workspace.mkdir(parents=True, exist_ok=True)
    kwargs.setdefault("env", {"PYTHONPATH": str(ROOT), **KEYS})
    argv = [sys.executable, "-c", CONTROLLER, wall, str(workspace), str(script)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, **kwargs)  # type: ignore[call-overload]
    answer = json.loads(done.stdout)
    assert not answer["timed_out"]
    return str(answer["out"])


def test_no_key_is_found(wall: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "d2k-agent.toml").write_text('api_key = "d2k-CANARY-6"\n')
    (tmp_path / "d2k-agent.toml").write_text('api_key = "d2k-CANARY-6"\n')
    found = run_script(wall, run / "ws", CASES / "E07_secret_probes.sh", cwd=tmp_path)
    assert not re.search(r"CANARY-\d", found)  # without a digit it is the probe's own search, seen in /proc
    assert found.startswith("-- own environment\n0\n")
    assert found.rstrip().endswith("-- python\n[]")


def test_keys_are_there_to_be_found_without_the_sandbox(tmp_path: Path) -> None:
    """The probe can fail: run bare, with the keys in its environment, it finds them."""
    script = (CASES / "E07_secret_probes.sh").read_text().partition('echo "-- files')[0]
    environment = {**KEYS, "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    argv = ["sh", "-s"]
    done = subprocess.run(
        argv, input=script, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "CANARY-1" in done.stdout


@pytest.mark.parametrize("layout", ["checkout", "site-packages"])
def test_no_withheld_text_is_found(wall: str, tmp_path: Path, layout: str) -> None:
    root = tmp_path / layout
    data = root if layout == "checkout" else root / "d2k_agent" / "_data"
    ignore = shutil.ignore_patterns("__pycache__", "_data")
    shutil.copytree(ROOT / "d2k_agent", root / "d2k_agent", ignore=ignore)
    (data / "guidance" / "muon").mkdir(parents=True)
    (data / "guidance" / "muon" / "expert.py").write_text("# CANARY-EXPERT\n")
    (data / "guidance" / "muon" / "guidance.json").write_text('{"note": "CANARY-GUIDE"}\n')
    if layout == "checkout":
        (root / "pyproject.toml").touch()
    for run in ("run1", "run2"):
        (tmp_path / "runs" / run / "ws").mkdir(parents=True)
        (tmp_path / "runs" / run / "events.jsonl").write_text("CANARY-OTHER\n")
    (tmp_path / "runs" / "run2" / "ws" / "solution.py").write_text("# CANARY-OTHER\n")
    script = tmp_path / "probe.sh"
    places = (
        f"{root} {root}/d2k_agent {data}/guidance {data}/guidance/muon/expert.py {tmp_path}/runs/run2/ws/solution.py"
    )
    script.write_text(
        f"{(CASES / 'E08a_withheld_plain.sh').read_text()}\necho '-- by name'; look {places} /usr/lib/python3\n"
    )
    environment = {"PYTHONPATH": str(root), **KEYS}
    found = run_script(wall, tmp_path / "runs" / "run1" / "ws", script, env=environment)
    assert found == "-- workspace and parents\n-- installed package\n-- by name\n"
