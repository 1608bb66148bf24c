"""Every command in the documents: untagged blocks are run, tagged ones are parsed by the real command line.

A block's tag follows its language: needs-key, needs-gpu or needs-host.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet
from pip._internal.commands import create_command

from d2k_agent.cli.entry import build_parser

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "tools/README.md", "traces/README.md")
BLOCK = re.compile(r"^```bash *(?P<tag>\S*)\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)
TAGS = ("needs-key", "needs-gpu", "needs-host")


def commands(run: bool) -> list[str]:
    """Command lines of the documents: those to run, or those to parse."""
    found = []
    for document in DOCUMENTS:
        for block in BLOCK.finditer((ROOT / document).read_text(encoding="utf-8")):
            assert block["tag"] in ("", *TAGS), f"{document}: unknown tag {block['tag']}"
            if (block["tag"] == "") is run:
                found += [line for line in block["text"].splitlines() if line.strip() and not line.startswith("#")]
    return found


def to_run() -> list[ParameterSet]:
    """Those to run; the ones that run or compile kernels of the tasks that ship are proofs."""
    kernels = re.compile(r"d2k-agent (?:tasks check|compile|evaluate|export|inspect|model-latency|solve) ")
    return [
        pytest.param(line, marks=[pytest.mark.proof] if kernels.search(line) else []) for line in commands(run=True)
    ]


@pytest.mark.parametrize("line", to_run())
def test_a_command_without_a_tag_runs(line: str, tmp_path: Path) -> None:
    for name in ("tasks", "guidance"):
        (tmp_path / name).symlink_to(ROOT / name)
    environment = dict(os.environ, PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    done = subprocess.run(
        ["bash", "-ec", line], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip()


@pytest.mark.parametrize("line", commands(run=False))
def test_a_tagged_command_parses(line: str) -> None:
    program, *words = shlex.split(line, comments=True)
    match Path(program).name:
        case "make":
            assert re.search(rf"^{words[0]}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        case "d2k-agent":
            assert callable(build_parser().parse_args(words).run)
        case "pip":
            assert_installs(words)
        case "python3":
            assert words[:2] == ["-m", "venv"] and len(words) == 3, line
        case _:
            pytest.fail(f"a documented command that nothing checks: {line}")


def assert_installs(words: list[str]) -> None:
    """pip takes the options, and what is installed is here or made by `make wheel`."""
    assert words[0] == "install"
    options, names = create_command("install").parse_args(words[1:])
    for file in options.requirements:
        assert (ROOT / file).is_file(), f"no {file} here"
    assert set(names) <= {"dist/*.whl"} and bool(names) is not bool(options.requirements)
    assert "--outdir dist" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_the_documents_show_commands_of_both_kinds() -> None:
    assert len(commands(run=True)) >= 5
    assert len(commands(run=False)) >= 5


def test_links_between_documents_lead_somewhere() -> None:
    for document in DOCUMENTS:
        path = ROOT / document
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{document}: {target}"
