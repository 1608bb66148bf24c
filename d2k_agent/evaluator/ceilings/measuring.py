"""The measurements, some seconds each: a batch right after a rest (burst), one of a second to warm up, one that counts.

Data are random, since a GPU at its power limit is faster on zeros. Clocks and limits are as they are found.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import torch

from d2k_agent.contract.ceilings import FAST_ACCUMULATION, Basis, Ceiling, Ceilings, Provenance
from d2k_agent.evaluator.devices.nvml import Gpu
from d2k_agent.evaluator.environment import machine

SHAPES = ((8192, 8192, 8192), (8192, 8192, 28672), (4096, 4096, 11008))
"""M, N, K of the matrix products; the best counts."""
COPY_BYTES, LINK_BYTES = 4 << 30, 1 << 30
GRAPH_KERNELS, GRAPH_REPLAYS = 2000, 20
REST_S, BATCH_S = 0.5, 1.0
BURST_CALLS = 10
WORTH_TELLING = 1.02
"""A burst is told where it is faster than what lasts by this factor."""
LEAST_FP8_CAPABILITY = (8, 9)
MEASURED: Basis = "measured"


def measured(progress: Callable[[str], None]) -> Ceilings:
    """The ceilings of the first GPU, in less than a minute. Raises torch.OutOfMemoryError."""
    properties = torch.cuda.get_device_properties(0)
    driver = Gpu(str(properties.uuid)).driver()

    def ceiling(value: float, method: str, burst: float | None = None) -> Ceiling:
        today = datetime.now(UTC).date().isoformat()
        told = Provenance(MEASURED, method, machine(), driver, str(torch.__version__), today)
        return Ceiling(value, told, burst if burst is not None and burst > WORTH_TELLING * value else None)

    progress("measuring copies")
    size = min(COPY_BYTES, torch.cuda.mem_get_info()[0] // 4) // 8 * 8
    copies = ceiling(*_copies(size))
    products = {}
    for name, kind in (("fp16", torch.float16), ("bf16", torch.bfloat16), ("fp8", torch.float8_e4m3fn)):
        if name != "fp8" or torch.cuda.get_device_capability(0) >= LEAST_FP8_CAPABILITY:
            progress(f"measuring {name} products")
            products[f"{name}_tflops"] = ceiling(*_products(kind))
    progress("measuring launches")
    return Ceilings(
        str(properties.name),
        copy_gb_s=copies,
        **products,
        launch_us=ceiling(
            _launch_us(),
            f"graphs of {GRAPH_KERNELS:,} kernels of one thread that do nothing, the best of {GRAPH_REPLAYS}",
        ),
        link_gb_s=_link(progress, ceiling),
        l2_bytes=int(properties.L2_cache_size),
    )


def _copies(size: int) -> tuple[float, str, float]:
    source = torch.empty(size // 8, dtype=torch.int64, device="cuda").random_()
    target = torch.empty_like(source)
    lasting_ms, burst_ms = _timed(lambda: target.copy_(source))
    method = f"copies of {size / 1e9:.1f} GB on the device for {BATCH_S:g} s, bytes read and written"
    return 2 * size / lasting_ms / 1e6, method, 2 * size / burst_ms / 1e6


def _products(kind: torch.dtype) -> tuple[float, str, float]:
    """TFLOP/s of the best shape, how they were measured, and those of its burst."""
    found = []
    for rows, columns, depth in SHAPES:
        lasting_ms, burst_ms = _timed(_product(kind, rows, columns, depth))
        flops = 2 * rows * columns * depth
        found.append((flops / lasting_ms / 1e9, product_method(kind, rows, columns, depth), flops / burst_ms / 1e9))
    return max(found)


def product_method(kind: torch.dtype, rows: int, columns: int, depth: int) -> str:
    """How products are measured, in words."""
    fast = f" with {FAST_ACCUMULATION}" * (kind is torch.float8_e4m3fn)
    return f"torch, {rows} x {columns} x {depth} on random data for {BATCH_S:g} s{fast}"


def _product(kind: torch.dtype, rows: int, columns: int, depth: int) -> Callable[[], Any]:
    left = torch.randn(rows, depth, device="cuda", dtype=torch.bfloat16).to(kind)
    if kind is torch.float8_e4m3fn:
        right = torch.randn(columns, depth, device="cuda", dtype=torch.bfloat16).to(kind).T
        one = torch.ones((), device="cuda")
        return lambda: torch._scaled_mm(  # noqa: SLF001 - the public name came after the oldest torch that we take
            left, right, one, one, out_dtype=torch.bfloat16, use_fast_accum=True
        )
    right = torch.randn(depth, columns, device="cuda", dtype=torch.bfloat16).to(kind)
    out = torch.empty(rows, columns, device="cuda", dtype=kind)
    return lambda: torch.mm(left, right, out=out)


def _launch_us() -> float:
    graph = torch.cuda.CUDAGraph()
    nothing = torch.cuda._sleep  # noqa: SLF001 - waits for zero clocks: an empty kernel without a compiler
    nothing(0)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        for _ in range(GRAPH_KERNELS):
            nothing(0)
    graph.replay()
    return min(_batch_ms(graph.replay, 1) for _ in range(GRAPH_REPLAYS)) / GRAPH_KERNELS * 1e3


def _link(progress: Callable[[str], None], ceiling: Callable[..., Ceiling]) -> Ceiling | None:
    """To the second GPU, in one direction; None where there is none, or where they do not reach each other's memory."""
    if torch.cuda.device_count() < 2 or not torch.cuda.can_device_access_peer(0, 1):
        return None
    progress("measuring the link to the second GPU")
    source = torch.empty(LINK_BYTES // 8, dtype=torch.int64, device="cuda:0").random_()
    target = torch.empty_like(source, device="cuda:1")
    lasting_ms, burst_ms = _timed(lambda: target.copy_(source))
    method = f"copies of {LINK_BYTES / 1e9:.1f} GB to the second GPU for {BATCH_S:g} s"
    return ceiling(LINK_BYTES / lasting_ms / 1e6, method, LINK_BYTES / burst_ms / 1e6)


def _timed(call: Callable[[], Any]) -> tuple[float, float]:
    """Milliseconds a call: in a batch of BATCH_S seconds after as long a warm-up, and in a short one after a rest."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    time.sleep(REST_S)
    burst_ms = _batch_ms(call, BURST_CALLS)
    calls = max(BURST_CALLS, math.ceil(BATCH_S * 1e3 / burst_ms))
    _batch_ms(call, calls)
    return _batch_ms(call, calls), burst_ms


def _batch_ms(call: Callable[[], Any], calls: int) -> float:
    start, end = _events()
    start.record()
    for _ in range(calls):
        call()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / calls


def _events() -> Sequence[Any]:
    return torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
