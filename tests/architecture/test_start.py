"""The command line starts without the libraries that take seconds to import."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys

import pytest

from tests.architecture.source import ROOT

HEAVY = ("torch", "triton", "numpy", "langgraph", "langchain_core", "litellm", "openai", "pydantic", "rich", "tiktoken")
LOADED = "import json, sys; print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"


def modules_loaded_by(statement: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{statement}\n{LOADED}"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "statement",
    [
        "import d2k_agent",
        "import d2k_agent.cli",
        "from d2k_agent.cli.entry import build_parser; build_parser()",
        "import d2k_agent.app",
        "import d2k_agent.config, d2k_agent.errors, d2k_agent.contract, d2k_agent.isolation",
        "import d2k_agent.catalog, d2k_agent.launchers",
        "import d2k_agent.models",
    ],
)
def test_importing_it_loads_nothing_heavy(statement: str) -> None:
    assert modules_loaded_by(statement).isdisjoint(HEAVY)


def test_the_agents_state_machine_loads_neither_a_provider_nor_torch() -> None:
    assert modules_loaded_by("import d2k_agent.agent").isdisjoint({"litellm", "torch", "triton"})


WITHOUT_THE_CONTROLLER = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pydantic", "langgraph", "langchain_core", "litellm", "tiktoken", "rich"):
            raise ModuleNotFoundError(f"{name} is not on a GPU machine", name=name)

sys.meta_path.insert(0, Absent())
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


def test_what_make_gpu_test_collects_needs_nothing_of_the_controller() -> None:
    """One file that cannot be imported there ends `make gpu-test` before its first test."""
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\ngpu-test:")[2].partition("\n\n")[0]
    words = shlex.split(recipe.partition("-m pytest")[2].replace("\\\n", " "))
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_CONTROLLER, *words, "--collect-only", "-q", "-p", "no:cacheprovider"],
        cwd=ROOT,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "tests/gpu/test_cuda_judge.py::" in done.stdout
