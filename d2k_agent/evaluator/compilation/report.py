"""From a capture to a CompileReport: every kernel inspected, every string and list bounded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import triton

from d2k_agent.contract import MOST_KERNELS, CompileReport, KernelReport
from d2k_agent.evaluator.compilation.advice import Reading, kernel_advice, tuning_advice
from d2k_agent.evaluator.compilation.capture import KernelUse
from d2k_agent.evaluator.compilation.failures import CandidateSource, Failure
from d2k_agent.evaluator.compilation.inspect_binary import (
    FMA,
    TENSOR_CORE,
    Access,
    Product,
    Resources,
    count_instructions,
    has_loop,
    has_product,
    left_products,
    read_accesses,
)
from d2k_agent.evaluator.compilation.occupancy import occupancy
from d2k_agent.evaluator.compilation.targets import Target
from d2k_agent.evaluator.compilation.tuning import Tuner
from d2k_agent.evaluator.element_types import count_types

MAX_NAME_CHARS = 200
MAX_ERROR_CHARS = 4000
MAX_WARNINGS = 50
MAX_WARNING_CHARS = 500
MAX_CONSTEXPRS = 40
MAX_GRIDS = 16


def build_report(
    *,
    target: Target,
    uses: Sequence[KernelUse],
    tuners: Sequence[Tuner],
    workloads: Mapping[str, int],
    resources: Mapping[bytes, Resources],
    source: CandidateSource,
    failure: Failure | None,
    notes: Sequence[str],
    registered: bool,
    seconds: float,
) -> CompileReport:
    """The report of what is known. `resources` is by kernel binary; `notes` become the first warnings.

    `workloads` are those that went through, each with the most bytes of tensors alive in it; they are the `registered`
    ones, or reduced ones in their place.
    """
    readings = [_reading(use, resources.get(use.compiled.kernel, Resources()), target, source) for use in uses]
    kernels = [reading.kernel for reading in readings]
    launched = [item for item in readings if item.kernel.launches]
    warnings = [*notes, *kernel_advice(launched, target, registered=registered)]
    warnings += [line for tuner in tuners for line in tuning_advice(tuner, target)]
    if failure is None and not launched:
        warnings.append("run() launched no Triton kernel")
    return CompileReport(
        target=target.name,
        architecture=target.architecture,
        triton_version=str(triton.__version__),
        kernels=tuple(kernels[:MOST_KERNELS]),
        workloads=tuple(workloads),
        error=None if failure is None else failure.text[:MAX_ERROR_CHARS],
        error_kind=None if failure is None else failure.kind,
        not_compiled=sum(tuner.left_out for tuner in tuners),
        warnings=tuple(text[:MAX_WARNING_CHARS] for text in dict.fromkeys(warnings))[:MAX_WARNINGS],
        seconds=round(seconds, 3),
        peak_bytes=dict(workloads),
        multiprocessors=target.multiprocessors,
        shared_limit_bytes=target.shared_limit_bytes,
    )


def _reading(use: KernelUse, resources: Resources, target: Target, source: CandidateSource) -> Reading:
    """A kernel variant, read."""
    assembly, metadata = use.compiled.asm, use.compiled.metadata
    ptx, ir = assembly["ptx"], assembly.get("ttgir", "")
    columns = getattr(metadata, "tmem_size", None)
    instructions = count_instructions(ptx) | count_types(ptx, assembly.get("ttir", ""), ir)
    products, accesses = left_products(ir), read_accesses(ptx, ir)
    kernel = KernelReport(
        name=str(use.compiled.name)[:MAX_NAME_CHARS],
        num_warps=int(metadata.num_warps),
        num_stages=int(metadata.num_stages),
        registers=resources.registers,
        spill_store_bytes=resources.spill_store_bytes,
        spill_load_bytes=resources.spill_load_bytes,
        stack_bytes=resources.stack_bytes,
        shared_bytes=int(metadata.shared),
        tensor_memory_columns=int(columns) if columns is not None and target.has_tensor_memory else None,
        instructions=instructions,
        constexprs=_constexprs(use.compiled.src),
        grids={label: tuple(grids)[:MAX_GRIDS] for label, grids in use.grids.items()},
        launches=use.launches,
        source_line=source.kernel_line(use.request),
        num_ctas=int(metadata.num_ctas),
        matrix=_matrix(instructions, products, has_product(assembly.get("ttir") or ir)),
        global_loads=_told(accesses[0]),
        global_stores=_told(accesses[1]),
        occupancy=occupancy(
            num_warps=int(metadata.num_warps),
            registers=resources.registers,
            shared_bytes=int(metadata.shared),
            barriers=resources.barriers,
            tensor_memory_columns=int(columns or 0) if target.has_tensor_memory else None,
        ),
    )
    return Reading(kernel, products, has_loop(ir), *accesses, resources.remarks)


def _matrix(instructions: Mapping[str, int], products: Sequence[Product], multiplies: bool) -> tuple[str, ...]:
    """What carries out matrix products, the newest first; FMA also where a product left no instruction of its own."""
    used = [kind for kind in TENSOR_CORE if instructions.get(kind)]
    by_fma = any(product.by == FMA for product in products) or (multiplies and not used)
    return (*used, *[FMA] * by_fma)


def _told(access: Access) -> dict[str, int]:
    return {str(size): count for size, count in access.by_bytes.items()}


def _constexprs(source: Any) -> dict[str, str]:
    """Compile-time arguments by name, as bounded text; not the numbers that Triton specialised on by itself."""
    found: dict[str, str] = {}
    for place, value in source.constants.items():
        if len(found) == MAX_CONSTEXPRS or not source.fn.params[place[0]].is_constexpr:
            continue
        name = source.fn.arg_names[place[0]] + "".join(f"[{index}]" for index in place[1:])
        bare = getattr(value, "value", value)
        plain = isinstance(bare, (bool, int, float, str, type(None), triton.language.dtype))
        found[str(name)[:MAX_NAME_CHARS]] = str(bare)[:MAX_NAME_CHARS] if plain else type(bare).__name__
    return found
