"""Which programs of a grid are interpreted, which trips of a loop are followed, and how counts are scaled back.

Pure functions of sizes and a random generator. Two opposite corners of a grid stand for themselves; the rest is sampled
over the order of launch, the middle and one of each stretch. The same holds for a loop: first and last trip, and some
between.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

SMALL_GRID = 8
"""Grids of up to so many programs are interpreted whole."""
INNER_PROGRAMS = 4
"""Programs that stand for all but the first and the last; one of them is the middle one."""
UNEVEN = 0.2
"""Where the work of programs varies by more than this coefficient, more of them are interpreted."""
MORE_PROGRAMS = 16
SHORT_LOOP = 8
"""Loops of up to so many trips are followed in full."""
BRANCHED_RUNS, RUN_TRIPS = 3, 8
"""One trip stands for all but the first and the last. Where what a trip does rests on which one it is, so many runs of
neighbours do: `if trip % 2 == 0` is true for half of a run, whatever trip it begins with."""

Program = tuple[int, int, int]


@dataclass(frozen=True)
class Choice:
    """Programs to interpret: `corners` stand for themselves, `inner` for the other `inner_total` together."""

    corners: tuple[Program, ...]
    inner: tuple[Program, ...]
    inner_total: int

    @property
    def programs(self) -> tuple[Program, ...]:
        """All of them, corners first."""
        return self.corners + self.inner

    @property
    def whole(self) -> bool:
        """True where nothing is left out."""
        return self.inner_total == len(self.inner)

    def total(self, values: Sequence[float]) -> float:
        """The sum over the grid, from a value a chosen program, in the order of `programs`."""
        corner, inner = values[: len(self.corners)], values[len(self.corners) :]
        mean = sum(inner) / len(inner) if inner else 0.0
        return sum(corner) + mean * self.inner_total

    def spread(self, values: Sequence[float]) -> float | None:
        """Coefficient of variation over the sampled programs; None where it cannot be told."""
        inner = values[len(self.corners) :] or values
        mean = sum(inner) / len(inner) if inner else 0.0
        if len(inner) < 2 or mean == 0:
            return None
        return math.sqrt(sum((value - mean) ** 2 for value in inner) / (len(inner) - 1)) / mean


def choose_programs(grid: Program, generator: random.Random) -> Choice:
    """The programs of a grid to interpret, x running fastest."""
    count = math.prod(grid)
    if count <= SMALL_GRID:
        return Choice((), tuple(_place(index, grid) for index in range(count)), count)
    corners = [0, count - 1]
    inner = [count // 2]
    inner += _spread_out(count, INNER_PROGRAMS - 1, {*corners, *inner}, generator)
    return Choice(
        tuple(_place(index, grid) for index in corners), tuple(_place(index, grid) for index in inner), count - 2
    )


def widened(choice: Choice, grid: Program, generator: random.Random) -> Choice:
    """The same choice with more inner programs behind those that it has."""
    x, y, _ = grid
    known = {place[0] + place[1] * x + place[2] * x * y for place in choice.programs}
    more = _spread_out(math.prod(grid), MORE_PROGRAMS, known, generator)
    return Choice(choice.corners, choice.inner + tuple(_place(index, grid) for index in more), choice.inner_total)


def _spread_out(count: int, parts: int, known: set[int], generator: random.Random) -> list[int]:
    """One new index of each of `parts` stretches, where a few tries find one."""
    found: list[int] = []
    for first, end in _strata(0, count, parts):
        tries = [generator.randrange(first, end) for _ in range(4)]
        found += [index for index in tries if index not in known and index not in found][:1]
    return found


def choose_trips(count: int, generator: random.Random, branched: bool = False) -> list[tuple[int, float]]:
    """The trips of a loop to follow, in order, each with how many trips it stands for.

    `branched`: a branch or a bound inside rests on the number of the trip.
    """
    runs, length = (BRANCHED_RUNS, RUN_TRIPS) if branched else (1, 1)
    if count <= max(SHORT_LOOP, runs * length + 2):
        return [(trip, 1.0) for trip in range(count)]
    weight = (count - 2) / (runs * length)
    begins = [generator.randrange(first, end - length + 1) for first, end in _strata(1, count - 1, runs)]
    inner = [begin + step for begin in begins for step in range(length)]
    return [(0, 1.0), *((trip, weight) for trip in inner), (count - 1, 1.0)]


def _strata(first: int, end: int, parts: int) -> Iterator[tuple[int, int]]:
    for part in range(parts):
        bounds = [first + (end - first) * at // parts for at in (part, part + 1)]
        if bounds[0] < bounds[1]:
            yield bounds[0], bounds[1]


def _place(index: int, grid: Program) -> Program:
    x, y, _ = grid
    return index % x, index // x % y, index // (x * y)
