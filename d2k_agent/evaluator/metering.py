"""What a call of run() does with PyTorch where the allocator keeps no count (the CPU): bytes held, bytes copied.

Memory that Python or NumPy holds is not seen, nor is what an interpreted kernel computes, which is NumPy's work.
"""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

_COPIES = {"copy_", "clone", "_to_copy"}
_ALLOCATIONS = {
    *("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"),
    *("zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones", "full", "full_like", "new_full"),
    *("fill_", "zero_", "resize_", "scalar_tensor"),
}
_VIEWS = {
    *("view", "_unsafe_view", "reshape", "_reshape_alias", "as_strided", "alias", "detach", "lift_fresh"),
    *("t", "transpose", "permute", "expand", "squeeze", "unsqueeze", "slice", "select", "narrow", "diagonal", "unfold"),
    *("split", "split_with_sizes", "unbind", "chunk", "set_"),
}
_GLUE = _COPIES | _ALLOCATIONS | _VIEWS
_WRITES_VALUES = _COPIES | {"fill_"}
"""They may be given a tensor of another type, and cast it then: `x.fill_(y[0])` as well as `x.copy_(y)`."""
_HOST_READS = frozenset(
    {
        *("tolist", "numpy", "__array__", "__dlpack__", "__repr__", "__format__", "__reduce_ex__"),
        *("untyped_storage", "storage", "apply_", "map_", "map2_"),
    }
)
"""Ways to a tensor's values that no operator is part of."""
HOST_READS = _HOST_READS | {"_local_scalar_dense", "is_nonzero", "item"}
"""Those, and the operators that stand for a number read from a tensor: float(x), range(n), if x."""

STORAGE = torch.Tensor.untyped_storage
"""As it was before any solution.py was there to replace it."""


@contextlib.contextmanager
def unmetered() -> Iterator[None]:
    """What is done inside, in the middle of a call of run(), is ours: no meter sees it. A decorator as well."""
    with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():  # noqa: SLF001 - as public ones, and quick
        yield


class CallMeter(TorchDispatchMode):  # type: ignore[misc]
    """Counts while active. Storages that already existed (the inputs) do not count.

    `peak_bytes` is the most bytes of new storages alive at one time, outputs included, with those that it saw made
    before and that are kept (a buffer of the import, or of an earlier call); `copied_bytes` the bytes that copying
    operators wrote; `foreign` the first operator that was no glue: arithmetic, a cast, a library's kernel, or values
    read on the host (`_local_scalar_dense`, `tolist`), with which Python could compute what kernels should.
    It counts in the thread that entered it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.peak_bytes = 0
        self.copied_bytes = 0
        self.foreign = ""
        self._live_bytes = 0
        self._tuning = False
        self._known: set[int] = set()
        self._reads = _HostReads(self)

    @contextlib.contextmanager
    def call(self) -> Iterator[Self]:
        """Count one more call: its copies and foreign operators from none, its peak from what is alive already."""
        self.foreign = ""
        with self:
            # The interpreter leaves a call's tensors in cycles, and what nobody can reach is not held. What is let go
            # of may run code of its own: that is the call's.
            gc.collect()
            self.peak_bytes, self.copied_bytes = self._live_bytes, 0
            yield self

    @contextlib.contextmanager
    def tuning(self) -> Iterator[None]:
        """Inside, what comes and goes again is the tuner's own and leaves the peak; what stays is the call's."""
        self._tuning = True
        try:
            yield
        finally:
            self._tuning = False
            self.peak_bytes = max(self.peak_bytes, self._live_bytes)

    def __enter__(self) -> Self:
        """Count from now on."""
        super().__enter__()
        self._reads.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        """Count no longer."""
        self._reads.__exit__(*raised)
        super().__exit__(*raised)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: to tell its compiler to skip this class, torch would import it, 1.4 s in every candidate's process."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the operator and count what it made."""
        operands = _tensors((args, kwargs or {}))
        given = {_key(value) for value in operands}
        name = str(func.name()).removeprefix("aten::").split(".")[0]
        if name not in _GLUE:
            self.note(name)  # before it runs: one that fails was meant to compute all the same
        result = func(*args, **(kwargs or {}))
        casts = name in _WRITES_VALUES and len({tensor.dtype for tensor in (*operands, *_tensors(result))}) > 1
        if casts:
            self.note(f"{name} with a change of dtype")
        for tensor in _tensors(result):
            if name in _COPIES:
                self.copied_bytes += tensor.nbytes
            key = _key(tensor)
            if key not in given and key not in self._known:
                self._add(key, STORAGE(tensor))
        return result

    def note(self, name: str) -> None:
        """Remember the first thing that was no glue."""
        self.foreign = self.foreign or name

    def _add(self, key: int, storage: torch.UntypedStorage) -> None:
        size = storage.nbytes()
        self._known.add(key)
        self._live_bytes += size
        if not self._tuning:
            self.peak_bytes = max(self.peak_bytes, self._live_bytes)
        weakref.finalize(storage, self._remove, key, size)

    def _remove(self, key: int, size: int) -> None:
        self._known.discard(key)
        self._live_bytes -= size


@dataclass
class MeteredCalls:
    """What the metered ones of timed calls came to: the most bytes that one held and copied, the first foreign act."""

    peak_bytes: int = 0
    copied_bytes: int = 0
    foreign: str = ""

    @contextlib.contextmanager
    def one(self) -> Iterator[None]:
        """Meter a call."""
        meter = CallMeter()
        try:
            with meter:
                yield
        finally:
            self.peak_bytes = max(self.peak_bytes, meter.peak_bytes)
            self.copied_bytes = max(self.copied_bytes, meter.copied_bytes)
            self.foreign = self.foreign or meter.foreign


class _HostReads(TorchFunctionMode):  # type: ignore[misc]
    """Notes calls of PyTorch's functions that read values, also where it takes dispatch modes away, as in printing."""

    def __init__(self, meter: CallMeter) -> None:
        super().__init__()
        self._meter = meter

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the function, noted if it reads values."""
        name = getattr(func, "__name__", "")
        if name in _HOST_READS:
            self._meter.note(name)
        return func(*args, **(kwargs or {}))


def _key(tensor: torch.Tensor) -> int:
    return int(STORAGE(tensor)._cdata)  # noqa: SLF001 - the one identity that a storage has


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [tensor for item in value.values() for tensor in _tensors(item)]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in _tensors(item)]
    return []
