"""How a job reaches an evaluator: `launch(job) -> Verdict` is the whole contract.

Covers: a process on this machine, and a fake that answers by a function. Does not cover what a
job means (contract) or how it is carried out (evaluator).
"""

from d2k_agent.launchers.base import Launcher, Progress
from d2k_agent.launchers.fake import FakeLauncher
from d2k_agent.launchers.process import ProcessLauncher

__all__ = ["FakeLauncher", "Launcher", "ProcessLauncher", "Progress"]
