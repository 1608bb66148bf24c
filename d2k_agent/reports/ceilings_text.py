"""Ceilings of GPUs for a reader: measured values beside the data sheet's, each marked, with where they come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from d2k_agent.contract.ceilings import CEILING_FIELDS, Ceiling, Ceilings, above_data_sheet
from d2k_agent.contract.wire import to_data
from d2k_agent.reports.tables import UNKNOWN, number, table

NAMES = {
    "copy_gb_s": "copy, GB/s read and written",
    "fp16_tflops": "fp16 products, TFLOP/s",
    "bf16_tflops": "bf16 products, TFLOP/s",
    "fp8_tflops": "fp8 products, TFLOP/s",
    "launch_us": "launch, us",
    "link_gb_s": "link, GB/s one way",
}
HEADER = ("ceiling", "measured", "burst", "data sheet", "measured/sheet")
DIGITS = 4


@dataclass(frozen=True)
class KnownGpu:
    """What is known of one kind of GPU. `measured_here` tells a measurement of this machine from one that ships."""

    name: str
    measured: Ceilings | None
    measured_here: bool
    data_sheet: Ceilings | None


def ceilings_data(gpus: list[KnownGpu]) -> list[dict[str, Any]]:
    """The same as plain data."""
    return [
        {
            "device_name": gpu.name,
            "measured": to_data(gpu.measured),
            "measured_here": gpu.measured_here,
            "data_sheet": to_data(gpu.data_sheet),
            "above_data_sheet": _above(gpu),
        }
        for gpu in gpus
    ]


def ceilings_text(gpus: list[KnownGpu], unknown: Sequence[str] = ()) -> str:
    """A table a GPU, then its sources; last the targets that are `unknown`."""
    parts = ["\n".join(_lines(gpu)) for gpu in gpus]
    if unknown:
        parts.append(f"Nothing is known of {', '.join(unknown)}: floors and models there are unknown until measured.")
    return "\n\n".join(parts)


def _lines(gpu: KnownGpu) -> Iterator[str]:
    yield gpu.name
    rows = [*(_row(gpu, name) for name in CEILING_FIELDS), _cache_row(gpu)]
    yield table(HEADER, rows, HEADER[1:])
    for name, factor in _above(gpu).items():
        yield (
            f"Measured {NAMES[name].partition(',')[0]} is {factor:.3g} times the data sheet: the clock may exceed the "
            "one that the sheet is stated at; more than a tenth wants another reason."
        )
    if gpu.measured is None:
        yield "Nothing was measured on such a GPU; `d2k-agent ceilings --measure` does it where one is."
    else:
        where = "on this machine" if gpu.measured_here else "elsewhere, and shipped"
        yield f"Measured {where}:"
        yield from _sources(gpu.measured)
    if gpu.data_sheet is not None:
        yield "Data sheets, dense products without sparsity:"
        yield from _sources(gpu.data_sheet)


def _row(gpu: KnownGpu, name: str) -> tuple[str, ...]:
    measured, printed = _of(gpu.measured, name), _of(gpu.data_sheet, name)
    ratio = "-" if measured is None or printed is None else f"{measured.value / printed.value:.0%}"
    return (
        NAMES[name],
        _value(measured),
        "-" if measured is None or measured.burst is None else number(measured.burst, DIGITS),
        _value(printed),
        ratio,
    )


def _cache_row(gpu: KnownGpu) -> tuple[str, ...]:
    measured, printed = (None if item is None else item.l2_bytes for item in (gpu.measured, gpu.data_sheet))
    told = [UNKNOWN if size is None else number(size / 2**20, DIGITS) for size in (measured, printed)]
    return ("L2 cache, MiB by the driver", told[0], "-", told[1], "-")


def _of(ceilings: Ceilings | None, name: str) -> Ceiling | None:
    found: Ceiling | None = None if ceilings is None else getattr(ceilings, name)
    return found


def _value(ceiling: Ceiling | None) -> str:
    return UNKNOWN if ceiling is None else number(ceiling.value, DIGITS)


def _above(gpu: KnownGpu) -> dict[str, float]:
    return {} if gpu.measured is None or gpu.data_sheet is None else above_data_sheet(gpu.measured, gpu.data_sheet)


def _sources(ceilings: Ceilings) -> Iterator[str]:
    """Each source once, with all that rests on it."""
    told: dict[str, list[str]] = {}
    for name in CEILING_FIELDS:
        ceiling = _of(ceilings, name)
        if ceiling is not None:
            origin = ceiling.provenance
            more = [origin.date, origin.driver and f"driver {origin.driver}", origin.torch and f"torch {origin.torch}"]
            told.setdefault(", ".join([origin.source, *filter(None, more)]), []).append(NAMES[name].partition(",")[0])
    for source, names in told.items():
        yield f"  {', '.join(names)}: {source}"
