"""What a call of run() does with PyTorch where the allocator keeps no count (the CPU): bytes held, bytes copied.

Memory that Python or NumPy holds is not seen, nor is what happens inside an interpreted kernel.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_COPIES = ("aten::copy_", "aten::clone", "aten::_to_copy")


class CallMeter(TorchDispatchMode):  # type: ignore[misc]
    """Counts while active. Storages that already existed (the inputs) do not count.

    `peak_bytes` is the most bytes of new storages alive at one time, outputs included; `copied_bytes` the bytes that
    copying operators wrote.
    """

    def __init__(self) -> None:
        super().__init__()
        self.peak_bytes = 0
        self.copied_bytes = 0
        self._live_bytes = 0
        self._known: set[int] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the operator and count what it made."""
        given = {_key(value) for value in _tensors((args, kwargs or {}))}
        result = func(*args, **(kwargs or {}))
        for tensor in _tensors(result):
            if func.name().split(".")[0] in _COPIES:
                self.copied_bytes += tensor.nbytes
            key = _key(tensor)
            if key not in given and key not in self._known:
                self._add(key, tensor.untyped_storage())
        return result

    def _add(self, key: int, storage: torch.UntypedStorage) -> None:
        size = storage.nbytes()
        self._known.add(key)
        self._live_bytes += size
        self.peak_bytes = max(self.peak_bytes, self._live_bytes)
        weakref.finalize(storage, self._remove, key, size)

    def _remove(self, key: int, size: int) -> None:
        self._known.discard(key)
        self._live_bytes -= size


def _key(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)  # noqa: SLF001 - the one identity that a storage has


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [tensor for item in value.values() for tensor in _tensors(item)]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in _tensors(item)]
    return []
