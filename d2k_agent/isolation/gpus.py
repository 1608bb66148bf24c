"""Which device files a process needs to use the GPUs of this machine."""

from __future__ import annotations

from pathlib import Path


def gpu_devices() -> tuple[str, ...]:
    """The device files of NVIDIA GPUs on this machine, empty where there is none."""
    devices = sorted(str(path) for path in Path("/dev").glob("nvidia*"))
    return tuple(devices) if any(device.removeprefix("/dev/nvidia").isdigit() for device in devices) else ()
