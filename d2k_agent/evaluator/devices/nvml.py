"""What NVIDIA's management library says of a GPU: its name, its clocks and power now. Read only, no setting changed."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass
from typing import Any

_SM_CLOCK = 1
_LINK_SENT_KIB = 138
"""NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX: payload that a link has sent, in KiB."""
_MOST_LINKS = 18


class _FieldValue(ctypes.Structure):
    """nvmlFieldValue_t, its value as the 64-bit integer that counters are."""

    _fields_ = [
        ("field", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latency_us", ctypes.c_longlong),
        ("value_type", ctypes.c_int),
        ("code", ctypes.c_int),
        ("value", ctypes.c_ulonglong),
    ]


@dataclass(frozen=True)
class Load:
    """A moment's load: SM clock in MHz, power in watts, None where the library does not say."""

    sm_mhz: float | None
    power_w: float | None


class Gpu:
    """One GPU by its UUID as PyTorch tells it (with or without the prefix). Answers None where there is no library."""

    def __init__(self, uuid: str) -> None:
        self.uuid = uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"
        self._library = _library()
        self._handle = ctypes.c_void_p()
        if self._library is not None:
            found = self._library.nvmlDeviceGetHandleByUUID(self.uuid.encode(), ctypes.byref(self._handle))
            if found != 0:
                self._library = None

    def load(self) -> Load:
        """The load at this moment."""
        power = self._number("nvmlDeviceGetPowerUsage")
        return Load(self._number("nvmlDeviceGetClockInfo", _SM_CLOCK), None if power is None else power / 1e3)

    def sent_bytes(self) -> int | None:
        """Payload that all links of the GPU have sent so far; None where there are none, or nobody counts."""
        if self._library is None:
            return None
        fields = (_FieldValue * _MOST_LINKS)()
        for link, field in enumerate(fields):
            field.field, field.scope = _LINK_SENT_KIB, link
        if self._library.nvmlDeviceGetFieldValues(self._handle, _MOST_LINKS, fields) != 0:
            return None
        counts = [int(field.value) for field in fields if field.code == 0]
        return 1024 * sum(counts) if counts else None

    def driver(self) -> str | None:
        """The driver's version."""
        if self._library is None:
            return None
        text = ctypes.create_string_buffer(96)
        return text.value.decode() if self._library.nvmlSystemGetDriverVersion(text, 96) == 0 else None

    def _number(self, function: str, *arguments: int) -> float | None:
        if self._library is None:
            return None
        value = ctypes.c_uint()
        code = getattr(self._library, function)(self._handle, *arguments, ctypes.byref(value))
        return float(value.value) if code == 0 else None


@functools.cache
def _library() -> Any:
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    return library if library.nvmlInit_v2() == 0 else None
