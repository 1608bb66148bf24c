"""Finding out which isolation works here, by running the interpreter and a compiler inside and trying to get out."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, get_args

from d2k_agent.errors import MachineError
from d2k_agent.isolation import gpu_devices, landlock_abi
from d2k_agent.sandbox.bubblewrap import find_bubblewrap
from d2k_agent.sandbox.sandbox import Isolation, IsolationKind, Sandbox

_LIMIT_S = 60.0
_INSIDE = """
import ctypes, importlib.util, json, os, socket, ssl, subprocess, sys
secret, controller, parent_may_be_asked = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "landlock"
if importlib.util.find_spec("numpy"):
    import numpy
def reaches(action):
    try:
        action()
    except OSError:
        return False
    return True
try:
    compiler = subprocess.run(["cc", "--version"], capture_output=True, text=True).stdout.split("\\n")[0] or None
except OSError:
    compiler = None
open("written", "w").close()
print(json.dumps({
    "compiler": compiler,
    "reads a file outside": reaches(lambda: open(secret)),
    "signals the controller": parent_may_be_asked and reaches(lambda: os.kill(controller, 0)),
    "opens a network socket": reaches(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)),
}))
"""


def probe() -> Isolation:
    """The strongest isolation that works on this machine, bubblewrap before Landlock.

    `details` says for either whether it is used, or why it is not; and names the measures, the compiler found inside
    and whether there is a GPU.
    """
    details: dict[str, Any] = {"landlock_abi": landlock_abi(), "gpu": bool(gpu_devices())}
    for kind in get_args(IsolationKind):
        if kind == "none":
            break
        try:
            found = _try(kind)
        except MachineError as problem:
            details[kind] = str(problem)
            continue
        details.update(found)
        details[kind] = "used"
        return Isolation(kind, details)
    return Isolation("none", details)


def _try(kind: IsolationKind) -> dict[str, Any]:
    """What one isolation offers. Raises MachineError with the reason when it cannot be used or does not hold."""
    if kind == "bubblewrap" and find_bubblewrap() is None:
        raise MachineError("not installed")
    with tempfile.TemporaryDirectory(prefix="d2k-probe-") as folder:
        workspace, secret = Path(folder, "workspace"), Path(folder, "secret")
        workspace.mkdir()
        secret.touch()
        sandbox = Sandbox(Isolation(kind), workspace)
        argv = [sys.executable, "-I", "-c", _INSIDE, str(secret), str(os.getpid()), kind]
        completed = sandbox.run(argv, limit_s=_LIMIT_S, output_bytes=1 << 16)
        if completed.returncode != 0 or not (workspace / "written").exists():
            said = completed.stderr.tail or completed.stderr.head
            raise MachineError(f"the interpreter does not run inside: {said.decode(errors='replace').strip()[-300:]}")
        found = json.loads(completed.stdout.head + completed.stdout.tail)
    holes = [hole for hole, open_ in found.items() if open_ is True]
    if holes:
        raise MachineError(f"it does not hold on this kernel: a command inside {', '.join(holes)}")
    return {"compiler": found["compiler"], "measures": list(completed.measures)}
