"""The command line starts without the libraries that take seconds to import."""

from __future__ import annotations

import json
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
