"""What the tests of rules ask with: a kernel, lines in run(), and the checks that are broken."""

from __future__ import annotations

from d2k_agent.evaluator.rules import check_rules

KERNEL = """
import torch
import triton
import triton.language as tl

@triton.jit
def copy(x, out, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + o, tl.load(x + o, mask=o < n), mask=o < n)
"""

OWN = """
CACHE = {}

class Space:
    norm = None

    def __init__(self, G):
        self.norm, self.product = torch.empty_like(G), None

    def matmul(self, G):
        copy[(1,)](G, self.norm, 1, BLOCK=16)
        return self.norm
"""
"""A class whose fields and methods bear names of a tensor's."""


def checks(body: str, rules: dict[str, dict[str, list[str]]] | None = None) -> set[str]:
    """The checks that KERNEL with `body` after it breaks, under a task's rules."""
    return {violation.check for violation in check_rules(KERNEL + body, rules or {})}


def inside_run(*lines: str) -> str:
    """A run() of these lines, of a tensor G and of `scale`, which nobody knows."""
    return "\ndef run(G, scale, steps=5):\n    " + "\n    ".join(lines) + "\n    return G\n"
