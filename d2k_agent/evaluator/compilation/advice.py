"""What the author of a candidate should look at first, from the compiled kernels alone. Sentences, never a verdict.

One sentence for all variants of a kernel that have a problem: it names the worst of them, the evidence, and what would
help. The most important problem comes first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from d2k_agent.contract import KernelReport
from d2k_agent.contract.wording import counted
from d2k_agent.evaluator.compilation.inspect_binary import FMA, TENSOR_CORE, Access, Product
from d2k_agent.evaluator.compilation.occupancy import BLOCKS, WARP_SIZE
from d2k_agent.evaluator.compilation.targets import Target
from d2k_agent.evaluator.compilation.tuning import Tuner

ASYNCHRONOUS_LOADS = ("cp.async", "tma_load")
NAMED_WORKLOADS = 2
LEAST_ROWS, LEAST_COLUMNS, LEAST_WARPS = 64, 16, 4
"""What Triton wants of a tile before it multiplies by wgmma or tcgen05.mma."""
WIDE_BYTES = 16
"""What one access of a thread moves at best, as far as every target goes."""
NARROW_BYTES = 4


@dataclass(frozen=True)
class Reading:
    """A launched kernel variant: its report, and what only advice needs of it. `remarks` are ptxas's own."""

    kernel: KernelReport
    products: tuple[Product, ...]
    loops: bool
    loads: Access
    stores: Access
    remarks: tuple[str, ...]


Problem = tuple[float, str]
"""How bad it is among problems of its kind, and what follows the kernel's name."""


def kernel_advice(readings: Sequence[Reading], target: Target, *, registered: bool = True) -> list[str]:
    """Warnings about the launched kernels, a line each: spills first, then products, loads, ptxas's remarks, grids.

    Nothing of grids where the workloads are not the `registered` ones: those are small, and so is every grid.
    """
    kernels: dict[tuple[str, int | None], list[Reading]] = {}
    for reading in readings:
        kernels.setdefault((reading.kernel.name, reading.kernel.source_line), []).append(reading)
    checks = _CHECKS if registered else [check for check in _CHECKS if check is not _idle]
    return [line for check in checks for variants in kernels.values() for line in _worst(check, variants, target)]


def _worst(check: Check, variants: Sequence[Reading], target: Target) -> Iterator[str]:
    found = [(problem, reading) for reading in variants for problem in [check(reading, target)] if problem]
    if found:
        (_, text), reading = max(found, key=lambda item: item[0][0])
        more = f" So do {counted(len(found) - 1, 'more variant')} of it." if len(found) > 1 else ""
        yield f"{_where(reading.kernel)} {text}{more}"


def _where(kernel: KernelReport) -> str:
    """Name, line, and the workloads that launch this variant where they are few enough to read."""
    places = [f"line {kernel.source_line}"] if kernel.source_line else []
    if 0 < len(kernel.grids) <= NAMED_WORKLOADS:
        places.append(f"at {', '.join(kernel.grids)}")
    return f"kernel {kernel.name}" + (f" ({', '.join(places)})" if places else "")


def _spills(reading: Reading, _: Target) -> Problem | None:
    kernel = reading.kernel
    stored, loaded = kernel.spill_store_bytes or 0, kernel.spill_load_bytes or 0
    if not stored + loaded:
        return None
    return stored + loaded, (
        f"spills registers: {stored} bytes stored, {loaded} bytes loaded a thread, {kernel.registers} registers used. "
        f"Use smaller tiles or more num_warps."
    )


def _without_tensor_core(reading: Reading, _: Target) -> Problem | None:
    if FMA not in (reading.kernel.matrix or ()):
        return None
    product = next((item for item in reading.products if item.by == FMA), None)
    if product is None:
        return 0, (
            "multiplies matrices without any tensor-core instruction. Check operand types (float16, bfloat16, float8; "
            "float32 only with input_precision='tf32')."
        )
    cure = "Cast the operands to float16 or bfloat16, if the tolerance allows."
    if product.operand == "f32":
        cure = f"Set input_precision to 'tf32' or 'tf32x3', or c{cure[1:]}"
    return product.rows * product.columns * product.depth, (
        f"multiplies {_tile(product)} by FMA, without a tensor core. {cure}"
    )


def _by_mma_sync(reading: Reading, target: Target) -> Problem | None:
    kernel, best = reading.kernel, "tcgen05.mma" if target.has_tensor_memory else "wgmma"
    by_older = [item for item in reading.products if item.by == "mma.sync" and _serves(item, target)]
    if not by_older:
        return None
    product = max(by_older, key=lambda item: item.rows * item.columns * item.depth)
    lacking = [f"{product.rows} rows"] * (product.rows < LEAST_ROWS)
    lacking += [f"{product.columns} columns"] * (product.columns < LEAST_COLUMNS)
    lacking += [f"{counted(kernel.num_warps, 'warp')}"] * (kernel.num_warps < LEAST_WARPS)
    needs = f"tiles of {LEAST_ROWS} rows and {LEAST_COLUMNS} columns or more, and num_warps of {LEAST_WARPS} or more"
    here = f"here are {' and '.join(lacking)}" if lacking else "and operands that come from memory, not from registers"
    turned = product.rows < LEAST_ROWS <= product.columns
    return product.rows * product.columns * product.depth, (
        f"multiplies {_tile(product)} by mma.sync where {target.name} has {best}. Triton takes that for {needs}; "
        f"{here}.{' The transposed product has rows enough.' * turned}"
    )


def _serves(product: Product, target: Target) -> bool:
    """Whether Triton has a newer instruction for such operands: none for f64, and none for integers on Blackwell."""
    return product.operand != "f64" and not (target.has_tensor_memory and product.operand.startswith("i"))


def _tile(product: Product) -> str:
    return f"{product.rows}x{product.depth} by {product.depth}x{product.columns} tiles of {product.operand}"


def _unoverlapped(reading: Reading, _: Target) -> Problem | None:
    instructions = reading.kernel.instructions
    if not (reading.loops and any(instructions.get(kind) for kind in TENSOR_CORE)):
        return None
    if any(instructions.get(kind) for kind in ASYNCHRONOUS_LOADS):
        return None
    return 0, (
        "multiplies what it loads without cp.async or TMA, so loads and products do not overlap. Triton needs "
        "num_stages of 2 or more and, for a thread, at least 4 contiguous bytes at an address that is a multiple of 4; "
        "or tensor descriptors."
    )


def _remarked(reading: Reading, _: Target) -> Problem | None:
    return (len(reading.remarks), f"makes ptxas say: {'; '.join(reading.remarks)}.") if reading.remarks else None


def _narrow_loads(reading: Reading, target: Target) -> Problem | None:
    return _narrow(reading, reading.loads, "loads from") or _small_tiles(reading, target)


def _narrow_stores(reading: Reading, _: Target) -> Problem | None:
    return _narrow(reading, reading.stores, "stores to")


def _narrow(reading: Reading, access: Access, verb: str) -> Problem | None:
    """Most of what threads move goes in small pieces, although they have wide shares of the tiles that it is from."""
    wide_bytes = reading.kernel.num_warps * WARP_SIZE * WIDE_BYTES
    if not any(elements * size >= wide_bytes for elements, size in access.tiles):
        return None
    counts = dict(access.by_bytes)
    # A row's one value can be needed by every thread: a small tile's elements may each be an access of their own.
    for elements, size in access.tiles:
        if elements * size < wide_bytes and size in counts:
            counts[size] = max(0, counts[size] - elements)
    narrow = {size: count for size, count in counts.items() if size <= NARROW_BYTES}
    if 2 * sum(map(math.prod, narrow.items())) <= sum(map(math.prod, counts.items())):
        return None
    size = max(narrow, key=lambda key: key * narrow[key])
    return 1 / size, (
        f"{verb} global memory {counted(size, 'byte')} at a time ({narrow[size]} of {sum(access.by_bytes.values())} "
        f"accesses in the PTX), where {WIDE_BYTES} would go. The fastest axis must be contiguous, strides, offsets and "
        "the bounds of masks multiples of 16 elements, and masks must not depend on loaded values; or use tensor "
        "descriptors."
    )


def _small_tiles(reading: Reading, target: Target) -> Problem | None:
    """Many blocks, and tiles so small that no thread has a wide access to make."""
    threads = reading.kernel.num_warps * WARP_SIZE
    largest = max((elements * size for elements, size in reading.loads.tiles), default=0)
    widest = max(reading.loads.by_bytes, default=0)
    many = max(map(min, _blocks(reading.kernel).values()), default=0) > target.multiprocessors * BLOCKS
    if not (many and 0 < largest < WIDE_BYTES * threads and widest <= NARROW_BYTES):
        return None
    return 1 / widest, (
        f"loads from global memory at most {counted(widest, 'byte')} at a time: its largest tile has {largest} bytes "
        f"for {threads} threads. Use larger tiles or fewer num_warps."
    )


def _idle(reading: Reading, target: Target) -> Problem | None:
    launches = _blocks(reading.kernel)
    # A helper of one block everywhere is mostly short, and without a time nobody can tell.
    if {blocks for found in launches.values() for blocks in found} <= {1}:
        return None
    label, blocks = min(((label, min(found)) for label, found in launches.items()), key=lambda item: item[1])
    if blocks >= target.multiprocessors:
        return None
    return target.multiprocessors - blocks, (
        f"launches {counted(blocks, 'block')} at {label}: {target.multiprocessors - blocks} of the "
        f"{target.multiprocessors} multiprocessors of {target.name} stay idle. Use smaller tiles, or split a long side "
        "among blocks, if this kernel takes long enough to matter."
    )


def _blocks(kernel: KernelReport) -> dict[str, list[int]]:
    """The blocks of each launch by workload; launches of nothing left out."""
    blocks = {
        label: [math.prod(grid) * (kernel.num_ctas or 1) for grid in grids] for label, grids in kernel.grids.items()
    }
    return {label: sizes for label, found in blocks.items() if (sizes := [size for size in found if size])}


Check = Callable[[Reading, Target], Problem | None]
_CHECKS: tuple[Check, ...] = (
    _spills,
    _without_tensor_core,
    _by_mma_sync,
    _unoverlapped,
    _remarked,
    _narrow_loads,
    _narrow_stores,
    _idle,
)


def tuning_advice(tuner: Tuner, target: Target) -> list[str]:
    """What became of the configurations of one autotuned kernel; nothing to say when all compiled and fit."""
    if not (tuner.unfit or tuner.left_out):
        return []
    example = f"; the first that does not fit: {next(iter(tuner.unfit))}" if tuner.unfit else ""
    line = (
        f"autotuned kernel {tuner.name}: of {len(tuner.offered)} configurations {len(tuner.tried)} were compiled, "
        f"{len(tuner.unfit)} do not fit {target.name}, {tuner.left_out} were not tried; none was measured{example}"
    )
    return [line]
