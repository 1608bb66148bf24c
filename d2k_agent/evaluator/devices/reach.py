"""Which memory interpreted kernels may touch: that of tensors which are alive, and what was lent.

They run in the candidate's process, where any number makes a pointer. Each load, store and atomic of Triton's
interpreter is looked at where it goes to memory, so that block pointers, descriptors and whatever else makes
addresses are covered. Does not cover what the host code does, nor a GPU, whose driver sees to its own memory.
"""

from __future__ import annotations

import gc
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from d2k_agent.evaluator.attached import AttachedSet, extent
from d2k_agent.evaluator.metering import STORAGE, unmetered

_NEAR_BYTES = 4096
"""So far from a tensor an address is told by its distance; farther ones say more of the heap than of a mistake."""
_ADVICE = (
    "mask the lanes that lie beyond. A kernel may only touch tensors that are alive: those it is given, and others by "
    "data_ptr() as long as somebody holds them"
)


class OutOfBounds(IndexError):
    """A kernel reached for memory that is no tensor's."""


@dataclass(frozen=True)
class Span:
    """Bytes that may be touched, up to `end`; `position` is that of an argument of run() which may only be read."""

    begin: int
    end: int
    position: int | None = None


class _Launch:
    """One launch: the memory that it may touch, with what keeps that alive until it is over."""

    def __init__(self, kernel: str, lent: Sequence[Span], blocks: frozenset[int], arguments: Sequence[Any]) -> None:
        self.kernel, self.lent, self.blocks, self.searched = kernel, lent, blocks, False
        self._arguments: Sequence[Any] | None = arguments
        self._held: dict[int, torch.UntypedStorage] = {}

    def begin(self) -> None:
        """Hold the arguments, once, with the first access: until then host code, as that of a grid, may move them."""
        if self._arguments is not None:
            self._hold(_tensors(self._arguments))
            self._arguments = None

    def _hold(self, tensors: Iterable[torch.Tensor]) -> None:
        """These are alive from now on. Of lent blocks only what was lent of them counts."""
        with unmetered():
            for tensor in tensors:
                storage = _storage(tensor)
                if storage is not None and storage.data_ptr() not in self.blocks:
                    self._held[storage.data_ptr()] = storage
            own = [Span(begin, begin + storage.nbytes()) for begin, storage in self._held.items() if storage.nbytes()]
        self.spans = sorted([*own, *self.lent], key=lambda span: span.begin)
        self._begins = [span.begin for span in self.spans]
        self._bounds = tuple(
            np.array(bounds or [0], dtype=np.uint64) for bounds in (self._begins, [span.end for span in self.spans])
        )

    def search(self) -> None:
        """Hold every tensor of this process: tables of addresses do not say whose they are.

        Those made before InsideCpu.start() are frozen, and not found; a candidate's all come later.
        """
        self.searched = True
        of_tensors: dict[type, bool] = {}
        found = []
        for item in gc.get_objects():
            kind = type(item)
            if kind not in of_tensors:
                of_tensors[kind] = issubclass(kind, torch.Tensor)
            if of_tensors[kind]:
                found.append(item)
        self._hold(found)

    def around(self, first: int, end: int) -> Span | None:
        """The span in which all these bytes lie."""
        at = bisect_right(self._begins, first) - 1
        return self.spans[at] if at >= 0 and end <= self.spans[at].end else None

    def around_each(self, addresses: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
        """For each address the number of its span, and whether `size` bytes lie in it."""
        begins, ends = self._bounds
        at = np.searchsorted(begins, addresses, "right") - 1
        found = ends[at]
        return at, (at >= 0) & (addresses < found) & (found - addresses >= size)


class Reach:
    """What the kernels of one process did beyond what they may. Only watch() makes it look."""

    def __init__(self) -> None:
        self._lent: tuple[Span, ...] = ()
        self._blocks: frozenset[int] = frozenset()
        self._written: set[int] = set()
        self._fault: OutOfBounds | None = None

    def lend(self, sets: Sequence[AttachedSet], blocks: Sequence[torch.Tensor]) -> None:
        """What is lent from now on: `blocks` as a whole, but of those of the sets only the arguments."""
        spans = [span for given in sets for span in _arguments(given)]
        private = {block.data_ptr() for given in sets for block in (given.inputs, given.answers)}
        for block in blocks:
            if block.data_ptr() not in private:
                spans.append(Span(block.data_ptr(), block.data_ptr() + block.nbytes))
        self._lent, self._blocks = tuple(spans), frozenset(block.data_ptr() for block in blocks)

    def begin(self) -> None:
        """A call begins: nothing was written in it."""
        self._written.clear()

    @property
    def written(self) -> tuple[int, ...]:
        """Positions of arguments that may only be read and were written since the call began, restored or not."""
        return tuple(sorted(self._written))

    @property
    def fault(self) -> OutOfBounds | None:
        """The first time that a kernel was out of bounds, also where the candidate caught that; None so far."""
        return self._fault

    def check(self) -> None:
        """Raises OutOfBounds where any kernel was out of bounds so far, also where the candidate caught that."""
        if self._fault is not None:
            raise self._fault

    def watch(self) -> None:
        """From now on, for the life of this process."""
        from triton.runtime.errors import InterpreterError
        from triton.runtime.interpreter import GridExecutor

        launches = list[_Launch]()
        written, plain = self._written, GridExecutor.__call__

        def entered(kernel: str, arguments: Sequence[Any]) -> _Launch:
            return _Launch(kernel, self._lent, self._blocks, arguments)

        def launch(executor: Any, /, *args: Any, **kwargs: Any) -> Any:
            given = [*args, *kwargs.values()]
            launches.append(entered(str(executor.fn.__name__), given))
            try:
                return plain(executor, *args, **kwargs)
            except InterpreterError:
                self.check()  # the interpreter wraps in it whatever a kernel raised
                raise
            finally:
                launches.pop()

        def look(kind: str, addresses: np.ndarray, size: int, mask: Any = None) -> None:
            if not addresses.size:
                return
            now = launches[-1] if launches else entered("outside of a launch", ())
            writes = kind != "load"
            now.begin()
            span = now.around(int(addresses.min()), int(addresses.max()) + size)
            if span is not None and not (writes and span.position is not None):
                return
            live = addresses.reshape(-1)
            if mask is not None:
                live = live[np.asarray(mask, dtype=bool).reshape(-1)]
            try:
                touched = _touched(now, kind, live, size)
            except OutOfBounds as fault:
                self._fault = self._fault or fault
                raise
            if writes:
                written.update(span.position for span in touched if span.position is not None)

        GridExecutor.__call__ = launch
        _look_at_native(look)


def _look_at_native(look: Any) -> None:
    """Have `look` called before each access of the interpreter's own library."""
    from triton.runtime.interpreter import _interpreter as native

    load, store, swap, update = native.load, native.store, native.atomic_cas, native.atomic_rmw

    def looked_load(pointers: Any, mask: Any, other: Any, dtype: Any) -> Any:
        addresses = _addresses(pointers)
        look("load", addresses, np.dtype(dtype).itemsize, mask)
        return load(addresses, mask, other, dtype)

    def looked_store(pointers: Any, value: Any, mask: Any) -> Any:
        addresses = _addresses(pointers)
        look("store", addresses, np.asarray(value).itemsize, mask)
        return store(addresses, value, mask)

    def looked_swap(pointers: Any, compared: Any, value: Any, order: Any) -> Any:
        addresses = _addresses(pointers)
        # The library reads as many bytes of each as the one or the other has: neither is cast to the pointer's type.
        sizes = {np.asarray(operand).itemsize for operand in (compared, value)}
        if len(sizes) > 1:
            raise ValueError("atomic_cas: what is compared and what is stored must be of the pointer's type")
        look("atomic", addresses, sizes.pop())
        return swap(addresses, compared, value, order)

    def looked_update(operation: Any, pointers: Any, value: Any, mask: Any, order: Any) -> Any:
        addresses = _addresses(pointers)
        look("atomic", addresses, np.asarray(value).itemsize, mask)
        return update(operation, addresses, value, mask, order)

    native.load, native.store = looked_load, looked_store
    native.atomic_cas, native.atomic_rmw = looked_swap, looked_update


def _addresses(pointers: Any) -> np.ndarray:
    """As the library will read them."""
    array = np.asarray(pointers)
    return array if array.dtype == np.uint64 else array.astype(np.uint64)


def _touched(launch: _Launch, kind: str, live: np.ndarray, size: int) -> Sequence[Span]:
    """The spans in which these addresses lie. Raises OutOfBounds where one lies in none."""
    if not live.size:
        return []
    span = launch.around(int(live.min()), int(live.max()) + size)
    if span is not None:
        return [span]
    at, inside = launch.around_each(live, size)
    if not inside.all() and not launch.searched:
        launch.search()
        at, inside = launch.around_each(live, size)
    if not inside.all():
        raise OutOfBounds(_told(launch, kind, live[~inside], live.size, size))
    return [launch.spans[number] for number in np.unique(at)]


def _told(launch: _Launch, kind: str, beyond: np.ndarray, lanes: int, size: int) -> str:
    article = "an" if kind == "atomic" else "a"
    first = int(beyond[0])
    distances = [(first - span.end, "behind the end") for span in launch.spans if first >= span.end]
    distances += [(span.begin - first, "before the beginning") for span in launch.spans if first < span.begin]
    distance, side = min(distances, default=(_NEAR_BYTES, ""))
    where = f", {distance} bytes {side} of one" if distance < _NEAR_BYTES else ", and near none"
    if any(span.begin <= first < span.end for span in launch.spans):
        where = ", across the end of one"
    count = "" if lanes == 1 else f" in {len(beyond)} of {lanes} lanes"
    return f"kernel {launch.kernel}: {article} {kind} out of bounds of its tensors{count}{where}: {_ADVICE}"


def _arguments(given: AttachedSet) -> Iterator[Span]:
    for position, value in enumerate(given.arguments):
        if isinstance(value, torch.Tensor) and value.numel():
            first, last = extent(value)
            begin = STORAGE(value).data_ptr()
            yield Span(begin + first, begin + last, None if position in given.mutated else position)


def _tensors(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    """Tensors of a launch, by what they are: an attribute of an object could be the candidate's own code."""
    from triton.runtime.jit import TensorWrapper
    from triton.tools.tensor_descriptor import TensorDescriptor

    for value in values:
        kind = type(value)
        if issubclass(kind, torch.Tensor):
            yield value
        elif issubclass(kind, tuple):
            yield from _tensors(tuple.__iter__(value))
        elif kind is TensorWrapper or kind is TensorDescriptor:
            yield from _tensors([value.base])


def _storage(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    """Where a tensor lies in this process's memory; None for one that does not."""
    try:
        storage = STORAGE(tensor)
        return storage if storage.device.type == "cpu" and storage.data_ptr() else None
    except (NotImplementedError, RuntimeError):  # sparse, or without memory
        return None
