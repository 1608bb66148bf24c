"""Ceilings of named GPUs as data: the vendor's figures, and what was measured once, each with its source.

Data sheets print peaks of matrix products with sparsity, which is twice what dense products can reach; here are dense
ones. They are stated at a boost clock (1,830 MHz for Hopper) that the GPU may exceed (1,980 MHz was read), so that a
measurement of some percent more is possible and no error by itself.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from d2k_agent.contract.ceilings import FAST_ACCUMULATION, PRODUCTS, Ceiling, Ceilings, Provenance
from d2k_agent.contract.gpu import device_name

_HOPPER = "NVIDIA H100 Tensor Core GPU Architecture white paper, H100 SXM5: dense peaks at the boost clock of 1,830 MHz"
_BLACKWELL = "NVIDIA Blackwell Architecture technical brief, HGX B200: half of what is printed with sparsity"


def _printed(value: float, source: str) -> Ceiling:
    return Ceiling(value, Provenance("data sheet", source))


DATA_SHEETS = (
    Ceilings(
        device_name("h100"),
        copy_gb_s=_printed(3352.0, "NVIDIA H100 Tensor Core GPU Architecture white paper, H100 SXM5"),
        fp16_tflops=_printed(989.4, _HOPPER),
        bf16_tflops=_printed(989.4, _HOPPER),
        fp8_tflops=_printed(1978.9, _HOPPER),
        link_gb_s=_printed(450.0, "NVIDIA H100 data sheet: NVLink 900 GB/s, both directions together"),
        l2_bytes=50 << 20,
    ),
    Ceilings(
        device_name("h200"),
        copy_gb_s=_printed(4800.0, "NVIDIA H200 data sheet, H200 SXM: 4.8 TB/s"),
        fp16_tflops=_printed(989.4, f"{_HOPPER}; the H200 data sheet prints the same peaks, with sparsity"),
        bf16_tflops=_printed(989.4, f"{_HOPPER}; the H200 data sheet prints the same peaks, with sparsity"),
        fp8_tflops=_printed(1978.9, f"{_HOPPER}; the H200 data sheet prints the same peaks, with sparsity"),
        link_gb_s=_printed(450.0, "NVIDIA H200 data sheet: NVLink 900 GB/s, both directions together"),
        l2_bytes=50 << 20,
    ),
    Ceilings(
        device_name("b200"),
        copy_gb_s=_printed(
            8000.0,
            "NVIDIA DGX B200 data sheet: 64 TB/s over 8 GPUs; by a driver's bus width and clock it is 7,672 "
            "GB/s (github.com/pytorch/ao, pull request 4002)",
        ),
        fp16_tflops=_printed(2250.0, _BLACKWELL),
        bf16_tflops=_printed(2250.0, _BLACKWELL),
        fp8_tflops=_printed(4500.0, _BLACKWELL),
        link_gb_s=_printed(900.0, "NVIDIA DGX B200 data sheet: NVLink 1.8 TB/s a GPU, both directions together"),
        l2_bytes=126 << 20,
    ),
)


def _measured(value: float, method: str, date: str = "2026-11-30", burst: float | None = None) -> Ceiling:
    told = Provenance("measured", method, driver="580.159.04", torch="2.11.0+cu130", date=date)
    return Ceiling(value, told, burst)


MEASURED = (
    Ceilings(
        device_name("h200"),
        copy_gb_s=_measured(4300.0, "a copy of 4.3 GB on the device, rounded to two digits", date="2026-11-04"),
        fp16_tflops=_measured(681.0, "4096 x 4096 x 11008 on random data for 1 s", burst=792.0),
        bf16_tflops=_measured(678.0, "4096 x 4096 x 11008 on random data for 1 s", burst=787.0),
        fp8_tflops=_measured(
            1286.0, f"8192 x 8192 x 28672 on random data for 1 s with {FAST_ACCUMULATION}", burst=1517.0
        ),
        launch_us=_measured(0.55, "graphs of 2,000 kernels of one thread that do nothing, the best of 20"),
        link_gb_s=_measured(395.0, "copies of 1.1 GB to the second GPU of the host for 1 s, one direction"),
        l2_bytes=60 << 20,
    ),
)
"""What ships with the package, for a machine that has not measured its own (`d2k-agent ceilings --measure`)."""


CLOCKS_MHZ = {device_name("h100"): (1830, 1980), device_name("h200"): (1830, 1980), device_name("b200"): (1856, 1965)}
"""The clock at which the data sheet states its peaks of products, and the highest one."""


def at_highest_clock(sheet: Ceilings) -> Ceilings:
    """A data sheet with the products that the GPU does at its highest clock; memory and links have clocks of their own.

    No call is faster than that, where short kernels do not reach the power limit.
    """
    boost, highest = CLOCKS_MHZ.get(sheet.device_name, (1, 1))
    factor = highest / boost
    rates = {f"{kind}_tflops": sheet.product_tflops(kind) for kind in PRODUCTS}
    faster: dict[str, Any] = {
        name: Ceiling(rate.value * factor, rate.provenance) for name, rate in rates.items() if rate is not None
    }
    return dataclasses.replace(sheet, **faster)


def data_sheet(name: str) -> Ceilings | None:
    """The vendor's figures for the GPU that its driver calls `name`; None for one that is not listed."""
    return next((item for item in DATA_SHEETS if item.device_name == name), None)


def shipped_measurement(name: str) -> Ceilings | None:
    """What was measured once on a GPU of that name; None where nothing was."""
    return next((item for item in MEASURED if item.device_name == name), None)


def ceilings_of(name: str, measured: Ceilings | None = None) -> Ceilings | None:
    """The best that is known of a GPU: `measured` here, else as it ships, else the data sheet, value by value.

    None for a GPU of which nothing is known.
    """
    known = [item for item in (measured, shipped_measurement(name), data_sheet(name)) if item is not None]
    if not known:
        return None
    merged = known[0]
    for other in known[1:]:
        merged = merged.over(other)
    return merged
