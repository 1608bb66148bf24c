"""Holds a rank up within a call of run(), at a place that nobody can foresee.

Ranks that run alike meet at their first exchange and stay side by side from there on, so that a later flag that is
missing, or comes too early, shows only where one of them is late at that very place.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

_COUNTED = ("create_masked_load", "create_masked_store", "create_atomic_rmw", "create_atomic_cas")
"""All ways to memory that the interpreter's builder has: the others call these."""


_Way = tuple[str, int, bool]
"""Load or store, the launch by number, and whether it goes to the own workspace."""


class HoldUps(Protocol):
    """The places of one process."""

    def watch(self, own: range, others: Sequence[range]) -> None:
        """The addresses of the ranks' workspaces, as this process reaches them."""

    def within(self, share: float, seconds: float, kind: str) -> AbstractContextManager[None]:
        """A context for one call, held up for so long at a place: `share`, from 0 to below 1, of the places that the
        call before had, of that `kind` ("load" or "store") where they are told apart. Where none is known yet, it is
        the first one.
        """


class LaunchHoldUps:
    """On a GPU: before a launch, in the order of the stream, so that neither Python nor an earlier kernel sees it."""

    def __init__(self, delay: Callable[[float], None]) -> None:
        self._delay = delay
        self._seen, self._place, self._seconds = 0, 0, 0.0

    def watch(self, own: range, others: Sequence[range]) -> None:
        """Any launch may wait or be waited for."""

    @contextmanager
    def within(self, share: float, seconds: float, kind: str) -> Iterator[None]:
        """Triton calls its hooks before each launch."""
        from triton import knobs

        self._place, self._seconds, self._seen = int(share * self._seen), seconds, 0
        knobs.runtime.launch_enter_hook.add(self._launched)
        try:
            yield
        finally:
            knobs.runtime.launch_enter_hook.remove(self._launched)

    def _launched(self, _: Any) -> None:
        if self._seen == self._place and self._seconds:
            self._delay(self._seconds)
        self._seen += 1


class AccessHoldUps:
    """In the interpreter: at a load from a workspace, or a store to one.

    Each launch that loads, or stores, is as likely as another one, however many places it has; they are in other ranks'
    workspaces where it reaches any, else in the own one. A load is made later. A store is put off, as a GPU may do: the
    kernel goes on without it, and waits for it where it must be seen, at its next release for all GPUs or at its end.
    So a flag that does not release comes first.
    """

    def __init__(self) -> None:
        self._own, self._others = range(0), list[range]()
        self._seen = Counter[_Way]()
        self._way: _Way | None = None
        self._launch, self._latest, self._place, self._seconds = 0, 0, 0, 0.0
        self._put_off: _Store | None = None

    def watch(self, own: range, others: Sequence[range]) -> None:
        """Only what lies in them is shared."""
        self._own, self._others = own, list(others)

    @contextmanager
    def within(self, share: float, seconds: float, kind: str) -> Iterator[None]:
        """The interpreter's ways to memory are replaced as long as the call lasts."""
        from triton.runtime.interpreter import GridExecutor, interpreter_builder

        builder = type(interpreter_builder)
        self._choose(share, kind)
        self._seen.clear()
        self._launch, self._latest, self._seconds = 0, 0, seconds
        plain = {name: getattr(builder, name) for name in _COUNTED}
        copy_back = GridExecutor._restore_args_dev  # noqa: SLF001 - the last thing that a launch does
        replaced = (self._load, self._store, self._atomic, self._atomic)
        try:
            for (name, function), own in zip(plain.items(), replaced, strict=True):
                setattr(builder, name, own(function))
            GridExecutor._restore_args_dev = self._ended(copy_back)  # noqa: SLF001
            yield
        finally:
            for name, function in plain.items():
                setattr(builder, name, function)
            GridExecutor._restore_args_dev = copy_back  # noqa: SLF001
            self._put_off = None

    def _choose(self, share: float, kind: str) -> None:
        shared = [way for way in self._seen if not (way[2] and (*way[:2], False) in self._seen)]
        ways = sorted(way for way in shared if way[0] == kind) or sorted(shared)
        at = share * len(ways)
        self._way = ways[int(at)] if ways else None
        self._place = int(at % 1 * self._seen[self._way]) if self._way else 0

    def _load(self, plain: Any) -> Any:
        def load(builder: Any, pointers: Any, mask: Any, *rest: Any, **more: Any) -> Any:
            self._before(pointers, mask)
            time.sleep(self._due_s("load", pointers))
            return plain(builder, pointers, mask, *rest, **more)

        return load

    def _store(self, plain: Any) -> Any:
        def store(builder: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
            self._before(pointers, mask)
            seconds = self._due_s("store", pointers)
            if not seconds:
                return plain(builder, pointers, value, mask, *rest)
            until = time.monotonic() + seconds
            self._put_off = _Store(lambda: plain(builder, pointers, value, mask, *rest), _bytes(pointers, mask), until)
            return None

        return store

    def _atomic(self, plain: Any) -> Any:
        from triton._C.libtriton import ir

        releasing = (ir.MEM_SEMANTIC.RELEASE, ir.MEM_SEMANTIC.ACQUIRE_RELEASE)

        def atomic(builder: Any, *operands: Any) -> Any:
            order, scope = operands[-2:]
            if order in releasing and scope == ir.MEM_SYNC_SCOPE.SYSTEM:
                self._make_up()
            self._before(next(operand for operand in operands if hasattr(operand, "data")), None)
            return plain(builder, *operands)

        return atomic

    def _ended(self, plain: Any) -> Any:
        def ended(*operands: Any) -> Any:
            self._make_up()
            self._launch += 1
            return plain(*operands)

        return ended

    def _due_s(self, kind: str, pointers: Any) -> float:
        """Seconds to hold this access up: none but at one. An address that is looked at again and again counts once."""
        address = int(pointers.data.flat[0])
        own = address in self._own
        if address == self._latest or not (own or any(address in space for space in self._others)):
            return 0.0
        self._latest, way = address, (kind, self._launch, own)
        self._seen[way] += 1
        if way != (self._way or way) or self._seen[way] <= self._place:
            return 0.0
        seconds, self._seconds = self._seconds, 0.0
        return seconds

    def _before(self, pointers: Any, mask: Any) -> None:
        """A process finds what it stored itself; and a store is not put off for longer than was asked for."""
        late = self._put_off
        if late is not None:
            near = _bytes(pointers, mask)
            if max(near.start, late.place.start) < min(near.stop, late.place.stop) or time.monotonic() >= late.until:
                self._put_off = None
                late.make()

    def _make_up(self) -> None:
        """Wait until the store that was put off is due, and make it."""
        late, self._put_off = self._put_off, None
        if late is not None:
            time.sleep(max(0.0, late.until - time.monotonic()))
            late.make()


@dataclass(frozen=True)
class _Store:
    make: Callable[[], Any]
    place: range
    until: float


def _bytes(pointers: Any, mask: Any) -> range:
    """From the first to the last byte that is accessed. The mask of a block pointer or a descriptor is a bare array."""
    live = pointers.data
    if mask is not None:
        live = live[(mask if hasattr(mask, "astype") else mask.data).astype(bool)]
    size = (pointers.get_element_ty().primitive_bitwidth + 7) // 8
    return range(int(live.min()), int(live.max()) + size) if live.size else range(0)
