"""Tensors of production shapes on a machine that has no room for them: large floating-point ones have no contents.

A lazy tensor is a read-only mapping of zero pages: it has addresses, strides and no memory. Integers, and floats up to
SMALL_BYTES, are real. What is computed from a lazy tensor is lazy, or zero and marked, so that nobody takes it for a
value. Does not cover kernels: counting.py asks here which addresses have contents.
"""

from __future__ import annotations

import contextlib
import mmap
import sys
import types
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from d2k_agent.evaluator.metering import unmetered

SMALL_BYTES = 32 << 20
"""Floating-point tensors of up to so many bytes have contents."""
SMALL_NEW_BYTES = 1 << 20
"""The same of tensors that nobody has written to yet."""
_RANDOM = frozenset(("rand", "randn"))
_HOST_READS = frozenset(("_local_scalar_dense", "equal", "nonzero", "is_nonzero", "item"))


class NotModelled(BaseException):
    """This call or launch has no modelled latency; the text says why. No Exception: a candidate cannot swallow it."""


class LazyFloats(TorchDispatchMode):  # type: ignore[misc]
    """While active, large floating-point tensors are made without contents, and operators on them make no more.

    Raises NotModelled where host code reads the value of a tensor that has none.
    """

    def __init__(self) -> None:
        super().__init__()
        self._absent: Any = weakref.WeakKeyDictionary()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # as metering.CallMeter: the import would cost more than the rest

    def why_absent(self, tensor: torch.Tensor) -> str:
        """Why the contents of this tensor are not there; empty where they are."""
        return str(self._absent.get(tensor.untyped_storage(), ""))

    def is_lazy(self, tensor: torch.Tensor) -> bool:
        """True where there is no memory behind the tensor that may be written."""
        return bool(self._absent.get(tensor.untyped_storage(), "") == _NO_CONTENTS)

    def forget(self, tensor: torch.Tensor, why: str) -> None:
        """From now on the contents of this tensor are not those of a real call."""
        self._absent.setdefault(tensor.untyped_storage(), why)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator, or do without its contents."""
        kwargs = kwargs or {}
        name = str(func.name()).removeprefix("aten::").split(".")[0]
        given = list(_tensors((args, kwargs)))
        absent = next(filter(None, map(self.why_absent, given)), "")
        returns = [result.alias_info for result in func._schema.returns]  # noqa: SLF001 - torch has no other way to tell
        writes = any(info is not None and info.is_write for info in returns) or name in ("set_", "resize_")
        if any(info is not None for info in returns) and not writes:
            return func(*args, **kwargs)  # a view: no contents are touched
        if name in _HOST_READS and absent:
            raise NotModelled(f"run() reads a value on the host that is not there ({absent})")
        if writes:
            return self._written(func, args, kwargs, given, absent)
        shapes = self._outlined(func, args, kwargs, name) if absent or not given or _may_be_large(given) else None
        most = SMALL_NEW_BYTES if "empty" in name else SMALL_BYTES
        if shapes is None or not (absent or any(_large(shape, most) for shape in _tensors(shapes))):
            return func(*args, **kwargs)
        return _mapped(shapes, lambda shape: self._without_contents(shape, absent, most))

    def _written(self, func: Any, args: Any, kwargs: Any, given: list[torch.Tensor], absent: str) -> Any:
        target = args[0] if args and isinstance(args[0], torch.Tensor) else None
        if target is None or self.is_lazy(target):
            return args[0] if args else func(*args, **kwargs)
        if absent:
            self.forget(target, absent)
            if any(self.is_lazy(tensor) for tensor in given):
                return target
        return func(*args, **kwargs)

    def _outlined(self, func: Any, args: Any, kwargs: Any, name: str) -> Any:
        """The results as tensors without memory: shape, strides and dtype. None where torch cannot tell them."""
        placed = dict(kwargs)
        if placed.get("generator") is not None:
            placed["generator"] = None
        if "device" in placed or not list(_tensors((args, kwargs))):
            placed["device"] = torch.device("meta")
        if placed.get("pin_memory"):
            placed["pin_memory"] = False
        try:
            with unmetered(), _without_compiler():
                # Described here: for these as well torch would import an algebra system, for half a second.
                if name in _RANDOM:
                    return torch.empty(args[0], dtype=placed.get("dtype"), device="meta")
                if name.endswith("_like"):
                    return _outline(args[0]).to(placed.get("dtype") or args[0].dtype)
                return func(*_mapped(args, _outline), **_mapped(placed, _outline))
        except (RuntimeError, NotImplementedError, TypeError) as problem:
            if not list(_tensors((args, kwargs))):
                return None
            absent = next(filter(None, map(self.why_absent, _tensors((args, kwargs)))), "")
            if absent:
                raise NotModelled(f"torch's {name} needs values that are not there ({absent})") from problem
            return None

    def _without_contents(self, shape: torch.Tensor, absent: str, most: int) -> torch.Tensor:
        if _large(shape, most) or (absent and shape.nbytes > SMALL_BYTES):
            tensor = _lazy(shape)
            self._absent[tensor.untyped_storage()] = _NO_CONTENTS
            return tensor
        with unmetered():
            tensor = torch.zeros_like(shape, device="cpu")
        if absent:
            self._absent[tensor.untyped_storage()] = absent
        return tensor


_NO_CONTENTS = "large floating-point tensors have no contents here"


def _large(tensor: torch.Tensor, most: int) -> bool:
    return bool(tensor.dtype.is_floating_point) and tensor.untyped_storage().nbytes() > most


def _may_be_large(given: list[torch.Tensor]) -> bool:
    """Whether operands are large enough for a large result; broadcasting and products may exceed their operands."""
    return sum(int(tensor.numel()) for tensor in given) > SMALL_BYTES // 64


def _lazy(shape: torch.Tensor) -> torch.Tensor:
    """A tensor like `shape`, on zero pages that cannot be written and take no memory."""
    size = max(shape.untyped_storage().nbytes(), mmap.PAGESIZE)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
    pages = mmap.mmap(-1, size, flags=flags, prot=mmap.PROT_READ)
    with warnings.catch_warnings(), unmetered():
        warnings.simplefilter("ignore")  # that they cannot be written is the point
        storage = torch.frombuffer(pages, dtype=torch.uint8).untyped_storage()
        return torch.empty(0, dtype=shape.dtype).set_(storage, 0, shape.size(), shape.stride())


def _outline(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        with unmetered():
            return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="meta")
    return value


@contextlib.contextmanager
def _without_compiler() -> Iterator[None]:
    """Inside, torch's own descriptions of results do without its compiler.

    They import it (three seconds), only to be left alone by it.
    """
    name = "torch._dynamo"
    if name in sys.modules:
        yield
        return
    stand_in = types.ModuleType(name)
    stand_in.disable = lambda function, *_, **__: function  # type: ignore[attr-defined]
    sys.modules[name] = stand_in
    try:
        yield
    finally:
        del sys.modules[name]


def _mapped(value: Any, function: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_mapped(item, function) for item in value)
    if isinstance(value, dict):
        return {key: _mapped(item, function) for key, item in value.items()}
    return value


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
