"""The agent: a state machine that lets a model work on a task until a budget is spent, and survives being killed.

Covers: the loop, its prompt, selection. Does not cover: what models, tools and the evaluator do.
"""

from d2k_agent.agent.ending import end_run
from d2k_agent.agent.graph import build_graph, mermaid
from d2k_agent.agent.parts import Confirm, Stopping
from d2k_agent.agent.running import Outcome, run_agent
from d2k_agent.agent.selection import Selection, select
from d2k_agent.agent.submitting import submission_data
from d2k_agent.records import StopReason

__all__ = [
    "Confirm",
    "Outcome",
    "Selection",
    "StopReason",
    "Stopping",
    "build_graph",
    "end_run",
    "mermaid",
    "run_agent",
    "select",
    "submission_data",
]
