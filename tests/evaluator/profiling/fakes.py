"""Stand-ins for ncu: scripts on a PATH of their own, and what the real one printed on an H200."""

from __future__ import annotations

import shutil
from pathlib import Path

from d2k_agent.contract.frames import write_frame
from d2k_agent.evaluator.profiling import target

CASES = Path(__file__).with_name("cases")
RAW = (CASES / "raw_h200.csv").read_text()
"""Two launches of a kernel `mm` in a range called `candidate`; the counters that nobody reads are cut out."""
GENERATOR = "import torch\n\ndef get_inputs(config):\n    return [torch.ones(config['n'], device=config['device'])]\n"
WORKLOAD = {"label": "small", "n": 64}

_RUN_TARGET = """\
#!/bin/sh
[ "$1" = --version ] && { echo "Version 2025.3.1.0 (build 1)"; exit; }
options="$*"
while [ $# -gt 0 ]; do case "$1" in --csv|--nvtx) shift ;; -*) shift; shift ;; *) break ;; esac; done
"""


def table(*ranges: str) -> str:
    """The real table with a pair of launches for each range of that name."""
    head, _, rows = RAW.partition('"0",')
    return head + "".join(('"0",' + rows).replace(":candidate:", f":{name}:") for name in ranges)


def environment(folder: Path, script: str | Path, name: str = "ncu", **variables: str) -> dict[str, str]:
    """An environment whose PATH begins with `script` as a tool of that name."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    tool = programs / name
    if isinstance(script, Path):
        shutil.copy(script, tool)
    else:
        tool.write_text(script)
    tool.chmod(0o755)
    return {"PATH": f"{programs}:/usr/bin:/bin", "OPENBLAS_NUM_THREADS": "1", **variables}


def done_without_target(folder: Path) -> str:
    """Shell code that says of the target what it says when it is done, in its place: it takes seconds to start."""
    told = folder / "told"
    with told.open("w+b") as file:
        write_frame(file.fileno(), target.STAGE, target.PROFILING.encode())
        write_frame(file.fileno(), target.DONE, b"")
    return f"cat > /dev/null; cat {told} > report"


def runs_target(folder: Path, output: str, refuse: str = "") -> str:
    """A script that runs its target as ncu does and then prints `output`; shell code in `refuse` comes first."""
    (folder / "output").write_text(output)
    return f'{_RUN_TARGET}{refuse}\n"$@"\ncat {folder / "output"}\n'
