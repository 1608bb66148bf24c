"""Where a candidate runs: how inputs are lent to it, how its outputs come back, and what can be measured there."""

from d2k_agent.evaluator.devices.base import Device, LentInputs
from d2k_agent.evaluator.devices.cpu import CpuDevice

__all__ = ["CpuDevice", "Device", "LentInputs"]
