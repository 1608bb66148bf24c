"""Where the agent's commands run: confined, bounded in time and output, and gone afterwards.

Covers: which isolation this machine can offer, and running one command under it. Does not cover: what a tool is
(toolbox), candidates (evaluator), and limits on the total of memory or disk.
"""

from __future__ import annotations

from d2k_agent.sandbox.bubblewrap import find_bubblewrap
from d2k_agent.sandbox.capture import Captured
from d2k_agent.sandbox.gpu_share import GpuShare
from d2k_agent.sandbox.probe import probe
from d2k_agent.sandbox.sandbox import Isolation, ResourceLimits, Sandbox
from d2k_agent.sandbox.supervised import Completed

__all__ = ["Captured", "Completed", "GpuShare", "Isolation", "ResourceLimits", "Sandbox", "find_bubblewrap", "probe"]
