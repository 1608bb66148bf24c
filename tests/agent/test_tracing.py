"""Nothing of a run leaves the machine, whatever the user's shell says about tracing."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
from pathlib import Path
from langsmith.utils import tracing_is_enabled
from tests.agent.scene import drive, hand_in, new_run, scripted
assert tracing_is_enabled(), "the test would prove nothing"
drive(new_run(Path(sys.argv[1])), scripted([hand_in("# speedup 2")]))
"""


def test_tracing_is_off_even_when_the_environment_turns_it_on(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        switched_on = {
            "LANGSMITH_TRACING": "true",
            "LANGCHAIN_TRACING_V2": "true",
            "LANGSMITH_ENDPOINT": f"http://127.0.0.1:{port}",
            "LANGSMITH_API_KEY": "not-a-key",
            "PYTHONPATH": str(ROOT),
        }
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path / "r")],
            env={**os.environ, **switched_on},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        server.settimeout(0.5)
        try:
            server.accept()
        except TimeoutError:
            return
    raise AssertionError("something connected to the tracing service")
