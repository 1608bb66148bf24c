"""d2k-agent: an agent that writes fast Triton kernels, and an evaluator that cannot be fooled."""

__version__ = "0.1.0"
