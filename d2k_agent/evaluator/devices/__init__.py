"""Where a candidate runs: how inputs are lent to it, how its outputs come back, and what can be measured there.

Only cuda.py touches a GPU, and inside.py is what the candidate's own process uses of a device.
"""

from d2k_agent.evaluator.devices.base import Block, Device
from d2k_agent.evaluator.devices.cpu import CpuDevice
from d2k_agent.evaluator.devices.lending import Lent

__all__ = ["Block", "CpuDevice", "Device", "Lent"]
