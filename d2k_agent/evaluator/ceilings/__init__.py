"""What the GPU that is here does at most, measured: a program of its own that prints one JSON object.

Covers: copies, matrix products, launches and the link to a second GPU, on random data, with the lease of each GPU held.
Does not cover: where the numbers are kept, and what they are compared with (app, reports).
"""

from d2k_agent.evaluator.ceilings.program import main

__all__ = ["main"]
