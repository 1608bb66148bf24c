"""Compiles what a candidate launches for a GPU that need not be there, and says what came of it.

Covers: capturing launches, compiling them apart, reading the results, words for the author. Called in a confined
process that has torch and triton and does not interpret kernels. Does not cover correctness or speed.
"""

from __future__ import annotations

from d2k_agent.evaluator.compilation.job import compile_candidate, prepare
from d2k_agent.evaluator.compilation.targets import TARGETS, Target, find_target

__all__ = ["TARGETS", "Target", "compile_candidate", "find_target", "prepare"]
