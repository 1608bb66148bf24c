"""Studies: questions that are put to recorded runs, and rules that answer them while a run goes on.

Covers: stopping policies, as pure functions over what a run recorded until then, and their replay. Does not cover:
finding and reading runs (app), or how an answer is printed (reports).
"""

from d2k_agent.study.parsing import DEFAULT_POLICIES, parse_policy
from d2k_agent.study.policies import BestFloors, Decision, FloorsFor, Gain, Headroom, Plateau, Policy
from d2k_agent.study.replaying import Stop, first_stop, never_stops, stop_rule

__all__ = [
    "DEFAULT_POLICIES",
    "BestFloors",
    "Decision",
    "FloorsFor",
    "Gain",
    "Headroom",
    "Plateau",
    "Policy",
    "Stop",
    "first_stop",
    "never_stops",
    "parse_policy",
    "stop_rule",
]
