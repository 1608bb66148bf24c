"""Gate kinds as named units: what calls gave against what they should have given, a value against a limit.

Every kind computes in fp64, or exactly, on the supervisor's own copies. A task's hidden/workloads.json uses kinds by
name (kinds.py has them all). Any gate may have `rows` (a function of check.py: which rows it is for), and any but a
counter `expect` (one that says what the output should be, given the others) and `change` (the output less what the
argument held before).
"""

from d2k_agent.evaluator.gates.base import Answer
from d2k_agent.evaluator.gates.comparing import compare, label_of
from d2k_agent.evaluator.gates.kinds import GATES

__all__ = ["GATES", "Answer", "compare", "label_of"]
