"""The candidate's kernels under compute-sanitizer: what they do to memory that comparing values does not show.

Covers: starting the tool with a fixed command line over the same confined target as the profiler's, and reading what it
prints. Does not cover: whether a candidate is right (checks).
"""

from __future__ import annotations

from d2k_agent.evaluator.sanitizing.session import SanitizerUnavailable, sanitize_candidate, sanitized

__all__ = ["SanitizerUnavailable", "sanitize_candidate", "sanitized"]
