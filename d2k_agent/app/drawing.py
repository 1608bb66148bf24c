"""The agent's state machine as a drawing."""

from __future__ import annotations

from d2k_agent.errors import MachineError


def drawing() -> str:
    """Mermaid text. Raises MachineError when LangGraph is not installed."""
    try:
        from d2k_agent import agent
    except ImportError as problem:
        raise MachineError(f"the package {problem.name} is not installed; run `make env` in the checkout") from None
    return agent.mermaid()
