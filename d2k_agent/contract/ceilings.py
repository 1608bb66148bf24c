"""What a GPU can do at most, where each number comes from, and the least time that counted work takes there.

Covers: ceilings from data sheets and from measurements, side by side; the floor of a call, which is a model and never
stands in for a measurement. Does not cover: the counts of a task (catalog), how ceilings are measured (evaluator), and
the numbers of named GPUs (data_sheets.py).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Basis = Literal["measured", "data sheet"]
Bound = Literal["products", "memory", "link", "launch"]
PRODUCTS = ("fp16", "bf16", "fp8")
"""Classes of matrix products, by their operands."""
FAST_ACCUMULATION = "fast accumulation"
"""How fp8 products reach their peak: sums stay in the tensor cores, which keep fewer bits of them than fp32 has."""
NOT_MEASURED = "problem"
"""The one key of what the measuring program answers instead of ceilings: a sentence on why."""


@dataclass(frozen=True)
class Provenance:
    """Where numbers come from. `source` names the data sheet, or says how was measured; the rest is of a measurement.

    `machine` is system and processor, `date` the day (UTC) as YYYY-MM-DD.
    """

    basis: Basis
    source: str
    machine: str | None = None
    driver: str | None = None
    torch: str | None = None
    date: str | None = None


@dataclass(frozen=True)
class Ceiling:
    """One number. `burst` is what was reached for some milliseconds, where that is more than what lasts a second."""

    value: float
    provenance: Provenance
    burst: float | None = None

    def __post_init__(self) -> None:
        for value in (self.value, self.burst):
            if value is not None and not 0 < value < float("inf"):
                raise ValueError(f"a ceiling is a finite number above 0, not {value}")


@dataclass(frozen=True)
class Ceilings:
    """What one kind of GPU does at most, by the name that its driver gives it. None is unknown.

    copy_gb_s    bytes of device memory, read and written ones together, in GB/s
    *_tflops     dense matrix products, in TFLOP/s; accumulators are fp32, of fp8 those of FAST_ACCUMULATION
    launch_us    the least time of a kernel that does nothing, in a graph of many; a floor and no ceiling
    link_gb_s    bytes to another GPU of the host, in one direction, in GB/s; None also where there is one GPU
    l2_bytes     size of the L2 cache
    """

    device_name: str
    copy_gb_s: Ceiling | None = None
    fp16_tflops: Ceiling | None = None
    bf16_tflops: Ceiling | None = None
    fp8_tflops: Ceiling | None = None
    launch_us: Ceiling | None = None
    link_gb_s: Ceiling | None = None
    l2_bytes: int | None = None

    def product_tflops(self, kind: str) -> Ceiling | None:
        """The rate of products of a class of PRODUCTS. Raises ValueError for another word."""
        if kind not in PRODUCTS:
            raise ValueError(f"matrix products are of {', '.join(PRODUCTS)}, not {kind!r:.40}")
        found: Ceiling | None = getattr(self, f"{kind}_tflops")
        return found

    def over(self, other: Ceilings) -> Ceilings:
        """These, and what `other` has where these have none."""
        mine = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        return dataclasses.replace(other, **{name: value for name, value in mine.items() if value is not None})


CEILING_FIELDS = tuple(
    item.name for item in dataclasses.fields(Ceilings) if item.name.endswith(("_s", "_tflops", "_us"))
)
"""The fields of Ceilings that hold a Ceiling, in order."""


def above_data_sheet(measured: Ceilings, sheet: Ceilings) -> dict[str, float]:
    """By how much, as a factor above 1, measured values exceed the data sheet's: such a measurement wants a reason.

    The clock at which a data sheet states its peaks is not the highest one, so a little above is possible.
    """
    factors = {}
    for name in CEILING_FIELDS:
        mine, theirs = getattr(measured, name), getattr(sheet, name)
        if mine is not None and theirs is not None and name != "launch_us":
            factor = max(mine.value, mine.burst or 0.0) / theirs.value
            if factor > 1:
                factors[name] = factor
    return factors


@dataclass(frozen=True)
class Work:
    """Counts of one call: floating-point operations of matrix products by class (a multiplication and an addition are
    two), bytes that must pass device memory, and bytes that must leave the GPU over a link."""

    product_flops: Mapping[str, float] = field(default_factory=dict)
    memory_bytes: float = 0.0
    link_bytes: float = 0.0

    def __post_init__(self) -> None:
        for value in (*self.product_flops.values(), self.memory_bytes, self.link_bytes):
            if not 0 <= value < float("inf"):
                raise ValueError(f"work is counted in finite numbers of at least 0, not {value}")

    @property
    def flops(self) -> float:
        """Operations of all classes together."""
        return sum(self.product_flops.values())


@dataclass(frozen=True)
class Floor:
    """Milliseconds that a call takes at least, by the model; what bounds it, and where that ceiling comes from."""

    ms: float
    bound: Bound
    basis: Basis


def floor_of(work: Work, ceilings: Ceilings, staying_bytes: float = 0.0) -> Floor | None:
    """The floor of `work`: the longest of products, memory, link and one launch, as if they overlapped perfectly.

    `staying_bytes` of the memory's bytes stay in the L2 cache between calls (rotation.py) and are subtracted. None
    where a ceiling that the work needs is unknown, and where nothing of it is bounded.
    """
    parts: list[tuple[Bound, float, Ceiling | None]] = [
        *(("products", flops / 1e9, ceilings.product_tflops(kind)) for kind, flops in work.product_flops.items()),
        ("memory", max(0.0, work.memory_bytes - staying_bytes) / 1e6, ceilings.copy_gb_s),
        ("link", work.link_bytes / 1e6, ceilings.link_gb_s),
    ]
    times: dict[Bound, list[tuple[float, Ceiling]]] = {}
    for bound, amount, ceiling in parts:
        if amount and ceiling is None:
            return None
        if amount and ceiling is not None:
            times.setdefault(bound, []).append((amount / ceiling.value, ceiling))
    if ceilings.launch_us is not None:
        times["launch"] = [(ceilings.launch_us.value / 1e3, ceilings.launch_us)]
    floors = [Floor(sum(ms for ms, _ in terms), bound, _basis(terms)) for bound, terms in times.items()]
    return max(floors, key=lambda floor: floor.ms, default=None)


def _basis(terms: list[tuple[float, Ceiling]]) -> Basis:
    measured = all(ceiling.provenance.basis == "measured" for _, ceiling in terms)
    return "measured" if measured else "data sheet"
