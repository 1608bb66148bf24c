"""One call of run() under Nsight Compute, and what its kernels' counters say.

Covers: starting the profiler with a fixed command line, the confined process that it watches, its table, the digest.
Does not cover: latencies (timing), and candidates that the static rules refuse: what the profiler reports of code that
could reach into its own process natively is no evidence.
"""

from __future__ import annotations

from d2k_agent.evaluator.profiling.jobs import profile_of, with_device_clock
from d2k_agent.evaluator.profiling.session import device_clock, profile_candidate
from d2k_agent.evaluator.profiling.unavailable import ProfileUnavailable

__all__ = ["ProfileUnavailable", "device_clock", "profile_candidate", "profile_of", "with_device_clock"]
