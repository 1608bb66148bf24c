"""What an interpreted program does, counted: bytes, products, other operations, atomics, and its longest chain.

Covers: the tally of one program, the time it needs alone, and where the addresses of a launch lie. Does not cover: the
interpreter that calls it (builder.py) or what the counts mean (roofline.py).
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
WARP, SCHEDULERS = 32, 4
"""Threads of a warp, and warps that one multiprocessor issues from in a clock."""


@dataclass(frozen=True)
class Pipe:
    """Elements a clock of one multiprocessor, and clocks until a result of it can be used."""

    rate: float
    latency: float


FLOATS, INTEGERS, SPECIAL, SHUFFLES, WARP_SUMS = Pipe(128, 4), Pipe(64, 4), Pipe(16, 20), Pipe(32, 24), Pipe(16, 24)
"""Rates: table of arithmetic instructions in the CUDA C++ programming guide, compute capability 9.0. Latencies of 4 are
those of dependent instructions, the others assumed."""
MEMORY_CLOCKS, SHARED_CLOCKS = 479, 29
"""From a load to its value, in device memory and in shared memory: an H100, by arXiv 2402.13499."""
PAIR_OPERATIONS = 3
"""For each of several values that are reduced together, to compare and to choose: assumed."""
PORT_BYTES, ACCESS_BYTES = 64, 512
"""A clock: what one multiprocessor takes from the L2 cache, and asks for where every thread asks for 16 bytes."""


Stretch = tuple[int, int]
"""The first and the last address of some memory."""
Counts = defaultdict[str, float]
"""Counts by name; what was never counted is 0."""


@dataclass(frozen=True)
class Reduction:
    """Of `values` tensors at once, of `elements` each, to `results` each. `at_once`: a warp can in one instruction."""

    elements: int
    results: int
    values: int
    floats: bool
    at_once: bool


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
    reached: dict[str, Stretch] = field(default_factory=dict)
    """From the lowest to the highest address that was touched."""
    single_accesses: float = 0.0
    """Elements that the compiler has to access one by one."""
    arithmetic: float = 0.0
    special: float = 0.0
    """Divisions, roots, exponentials and the like: part of `arithmetic`."""
    integers: float = 0.0
    """Operations on integers that rest on memory. Those on places alone are the compiler's to simplify."""
    exchange_clocks: float = 0.0
    """Of values between the threads of a warp, by a whole multiprocessor; `exchanged` are the values."""
    exchanged: float = 0.0
    atomics: float = 0.0
    issue_clocks: float = 0.0
    """That the program itself takes to issue its instructions."""
    waiting_clocks: float = 0.0
    """In which an instruction waits for its operands, where nothing else runs. Products are left out."""


class Meter:
    """Counts for the program at work. `weight` is what an event counts for, `generator` what samples draw from.

    It also follows one program through time: instructions issue in the order of the source, each when its operands are
    there. `ready` is the clock of an operand or a result. Loads that feed products are taken as fetched ahead.
    """

    def __init__(self) -> None:
        self.tally = Tally()
        self.warps = SCHEDULERS
        self._now = 0.0
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
        self._now = 0.0

    def wait(self, ready: float) -> None:
        """Nothing goes on before that clock: a branch, or an instruction whose operand is under way."""
        if self.weight and ready > self._now:
            self.tally.waiting_clocks += self.weight * (ready - self._now)
            self._now = ready

    def floats(self, elements: int, ready: float, special: bool = False) -> float:
        """Floating-point operations, one an element."""
        lanes = self._lanes(elements)
        self.tally.arithmetic += self.weight * lanes
        if special:
            self.tally.special += self.weight * lanes
        return self._through(SPECIAL if special else FLOATS, lanes, ready)

    def integers(self, elements: int, ready: float) -> float:
        """Operations on integers or truth values that rest on memory, one an element."""
        lanes = self._lanes(elements)
        self.tally.integers += self.weight * lanes
        return self._through(INTEGERS, lanes, ready)

    def reduction(self, shape: Reduction, ready: float) -> float:
        """A reduction or scan along an axis that lies across the threads of a warp: within threads, then across."""
        operate = self.floats if shape.floats else self.integers
        each = 1 if shape.values == 1 else PAIR_OPERATIONS * shape.values
        ready = operate(shape.elements * each, ready)
        threads = min(WARP, max(1, shape.elements // max(1, shape.results)))
        lanes = self._lanes(shape.results * threads)
        at_once = shape.at_once and threads == WARP
        pipe = WARP_SUMS if at_once else SHUFFLES
        for _ in range(1 if at_once else (threads - 1).bit_length()):
            self.tally.exchange_clocks += self.weight * lanes * shape.values / pipe.rate
            self.tally.exchanged += self.weight * lanes * shape.values
            ready = self._through(pipe, lanes * shape.values, ready)
            ready = ready if at_once else operate(lanes * each, ready)
        return ready if shape.results >= self.warps else ready + 2 * SHARED_CLOCKS

    def product(self, kind: str, flops: float, fed_by_pointers: bool) -> None:
        """Operations of a tl.dot."""
        self.tally.product_flops[kind] += self.weight * flops
        if fed_by_pointers:
            self.tally.pointer_fed_flops[kind] += self.weight * flops

    def _lanes(self, elements: int) -> int:
        """Elements that threads work on: where there are fewer than threads, several hold the same one."""
        return max(elements, WARP * self.warps)

    def _through(self, pipe: Pipe, lanes: float, ready: float) -> float:
        begun = self._issue(ready, lanes / (pipe.rate * min(1.0, self.warps / SCHEDULERS)))
        return begun + pipe.latency

    def _issue(self, ready: float, clocks: float) -> float:
        """When what takes so many clocks to issue begins."""
        self.wait(ready)
        begun = self._now
        if self.weight:
            self.tally.issue_clocks += self.weight * clocks
            self._now += clocks
        return begun

    def access(
        self, name: str, elements: int, itemsize: int, sectors: int, stretch: Stretch, ready: float, *,
        store: bool, single: bool,
    ) -> float:  # fmt: skip
        """One load or store of a block, whose addresses, mask and values are there at `ready`."""
        if not self.weight:
            return ready
        self.tally.reached[name] = hull([stretch, self.tally.reached.get(name, stretch)])
        begun = self._issue(ready, elements * itemsize / ACCESS_BYTES)
        (self.tally.stored if store else self.tally.loaded)[name] += self.weight * elements * itemsize
        self.tally.moved[name] += self.weight * sectors * SECTOR_BYTES
        if single:
            self.tally.single_accesses += self.weight * elements
        return begun + MEMORY_CLOCKS + sectors * SECTOR_BYTES / PORT_BYTES


def stretch_of(addresses: np.ndarray, itemsize: int) -> Stretch:
    """From the first to the last byte of a block, told from its ends: of most blocks these are the extremes."""
    first, last = sorted((int(addresses.reshape(-1)[0]), int(addresses.reshape(-1)[-1])))
    return first, last + itemsize - 1


def hull(stretches: Sequence[Stretch]) -> Stretch:
    """The shortest stretch that holds all of them."""
    return min(first for first, _ in stretches), max(last for _, last in stretches)


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
