"""What a candidate holds of a GPU's memory, as read from outside its process.

The count that the task's cap bounds is made in the candidate's process, of tensors alone. This one is the driver's, of
all that is in use on the GPU, read by the supervisor while the candidate is at rest: it also sees what PyTorch's
allocator keeps, memory taken past it, compiled kernels and what they spill to. It is reported and decides nothing: a
legal amount of these is not known, and another user of the GPU would be seen as well. What a call gives back before it
ends is not seen.
"""

from __future__ import annotations

from d2k_agent.contract import Check
from d2k_agent.evaluator.devices import Device


class Holding:
    """Made when everything is lent and before the candidate knows of it."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._before = device.others_bytes()

    def checks(self) -> list[Check]:
        """How many bytes more are in use now, as a check without a limit; none where nobody can say."""
        now = self._device.others_bytes()
        if now is None or self._before is None:
            return []
        return [Check("*", "device_memory", float(max(0, now - self._before)), None, True)]
