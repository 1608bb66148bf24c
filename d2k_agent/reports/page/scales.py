"""From values to places in a picture, and the round numbers that are written beside its axes."""

from __future__ import annotations

import math
from dataclasses import dataclass

_ROUND = (1.0, 2.0, 5.0)


@dataclass(frozen=True)
class Scale:
    """Maps values from `low` to `high` to places from `start` to `stop`; `logarithmic` ones are above 0."""

    low: float
    high: float
    start: float
    stop: float
    logarithmic: bool = False

    def place(self, value: float) -> float:
        """Where `value` lies, with a tenth of a pixel."""
        low, high, at = self.low, self.high, value
        if self.logarithmic:
            low, high, at = math.log(low), math.log(high), math.log(value)
        return round(self.start + (self.stop - self.start) * (at - low) / (high - low), 1)

    def ticks(self, most: int) -> list[float]:
        """At most so many round values between low and high."""
        if self.logarithmic:
            return _thinned([value for value in _decades(self.low, self.high) if self.low <= value <= self.high], most)
        step = next(step for step in _decades((self.high - self.low) / 1e3, math.inf) if self._count(step) <= most)
        return [index * step for index in range(math.ceil(self.low / step), math.floor(self.high / step + 1e-9) + 1)]

    def _count(self, step: float) -> int:
        return math.floor((self.high - self.low) / step + 1e-9) + 1


def short(value: float) -> str:
    """A round number as it stands at an axis: 20k, 1.5M, 0.2."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.4g}{unit}"
    return f"{value:.4g}"


def _decades(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, 20 ... from about `low` to about `high`, twelve decades at most."""
    first = math.floor(math.log10(low))
    last = first + 12 if math.isinf(high) else math.ceil(math.log10(high))
    return [digit * 10.0**power for power in range(first, last + 1) for digit in _ROUND]


def _thinned(values: list[float], most: int) -> list[float]:
    """Powers of ten alone where there are too many."""
    if len(values) <= most:
        return values
    return [value for value in values if math.log10(value) == round(math.log10(value))]
