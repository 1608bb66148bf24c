"""What an interpreted program does, counted: bytes, products, other arithmetic, atomics.

Covers: the tally of one program and where the addresses of a launch lie. Does not cover: the interpreter that calls it
(builder.py) or what the counts mean (roofline.py).
"""

from __future__ import annotations

import bisect
import contextlib
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

SECTOR_BYTES = 32
"""Memory moves between the L2 cache and a multiprocessor in sectors of so many bytes."""


Counts = defaultdict[str, float]
"""Counts by name; what was never counted is 0."""


@dataclass
class Region:
    """Addresses of one tensor's storage. `absent` says why its contents are not there; `lazy`: nothing is written."""

    name: str
    first: int
    nbytes: int
    lazy: bool
    absent: str
    stored: bool = False

    @property
    def end(self) -> int:
        """The first address behind it."""
        return self.first + self.nbytes

    def holds(self, lowest: int, highest: int) -> bool:
        """Whether both addresses are in it."""
        return self.first <= lowest and highest < self.end


class Regions:
    """The storages that a launch was given."""

    def __init__(self, regions: Sequence[Region] = ()) -> None:
        self.all = sorted(regions, key=lambda region: region.first)
        self._firsts = [region.first for region in self.all]

    def of(self, address: int) -> Region | None:
        """The one that an address is in."""
        at = bisect.bisect_right(self._firsts, address) - 1
        return self.all[at] if at >= 0 and address < self.all[at].end else None


@dataclass
class Tally:
    """The counts of one program, trips that were not followed included. Bytes by the name of the tensor."""

    product_flops: Counts = field(default_factory=lambda: Counts(float))
    pointer_fed_flops: Counts = field(default_factory=lambda: Counts(float))
    loaded: Counts = field(default_factory=lambda: Counts(float))
    stored: Counts = field(default_factory=lambda: Counts(float))
    moved: Counts = field(default_factory=lambda: Counts(float))
    single_accesses: float = 0.0
    """Elements that the compiler has to access one by one."""
    arithmetic: float = 0.0
    special: float = 0.0
    """Divisions, roots, exponentials and the like: part of `arithmetic`."""
    atomics: float = 0.0


class Meter:
    """Counts for the program at work. `weight` is what an event counts for, `generator` what samples draw from."""

    def __init__(self) -> None:
        self.tally = Tally()
        self.regions = Regions()
        self.weight = 1.0
        self.generator = random.Random(0)
        self.notes: dict[str, None] = {}

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Inside nothing counts."""
        weight, self.weight = self.weight, 0.0
        try:
            yield
        finally:
            self.weight = weight

    def begin_program(self, generator: random.Random) -> None:
        """Forget the tally of the program before."""
        self.tally, self.weight, self.generator = Tally(), 1.0, generator

    def arithmetic(self, elements: int, special: bool = False) -> None:
        """Floating-point operations, one an element."""
        self.tally.arithmetic += self.weight * elements
        if special:
            self.tally.special += self.weight * elements

    def product(self, kind: str, flops: float, fed_by_pointers: bool) -> None:
        """Operations of a tl.dot."""
        self.tally.product_flops[kind] += self.weight * flops
        if fed_by_pointers:
            self.tally.pointer_fed_flops[kind] += self.weight * flops

    def access(self, name: str, elements: int, itemsize: int, sectors: int, *, store: bool, single: bool) -> None:
        """One load or store of a block."""
        if not self.weight:
            return
        (self.tally.stored if store else self.tally.loaded)[name] += self.weight * elements * itemsize
        self.tally.moved[name] += self.weight * sectors * SECTOR_BYTES
        if single:
            self.tally.single_accesses += self.weight * elements


def sectors_of(addresses: np.ndarray, itemsize: int) -> int:
    """How many sectors a set of addresses touches.

    A block whose rows, or columns, lie next to each other is told from its edges: the alignment of its first one is
    taken for all of them.
    """
    if addresses.size < 2:
        return int(addresses.size)
    runs = _runs(addresses, itemsize)
    if runs is not None:
        count, length = runs
        begin = int(addresses.reshape(-1)[0]) % SECTOR_BYTES
        return count * (-(-(begin + length * itemsize) // SECTOR_BYTES))
    return int(np.unique(addresses.reshape(-1) // np.uint64(SECTOR_BYTES)).size)


def _runs(addresses: np.ndarray, itemsize: int) -> tuple[int, int] | None:
    """How many runs of neighbours a block of one or two axes consists of, and their length; None for anything else."""
    if addresses.ndim == 1:
        addresses = addresses[None, :]
    if addresses.ndim != 2 or min(addresses.shape) == 0:
        return None
    for block in (addresses, addresses.T):
        count, length = block.shape
        edges = block[[0, count // 2, -1]][:, [0, length // 2, -1]].astype(np.int64)
        along = edges - edges[:, :1]
        if length > 1 and (along == np.array([0, length // 2, length - 1]) * itemsize).all():
            gap = abs(int(edges[-1, 0]) - int(edges[0, 0]))
            return None if count > 1 and gap < length * itemsize else (count, length)
    return None
