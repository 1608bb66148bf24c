"""Static rules: what a candidate's source may use, from an allow-list, with names resolved.

Covers: imports, names of torch, Triton and Python, attributes and arithmetic of tensors outside kernels, reflection,
changes of what the candidate does not own, and whether run() can reach a launch. Comments never count, and texts only
where they stand for types or are filled by str.format.

Does not cover: what cannot be seen without running, such as a cache of results or a tensor whose type is hidden in an
unknown value. For those the evaluator verifies outputs and looks at the kernels that really ran.
"""

from d2k_agent.evaluator.rules.launches import missing_launch
from d2k_agent.evaluator.rules.table import RULES, check_rules

__all__ = ["RULES", "check_rules", "missing_launch"]
