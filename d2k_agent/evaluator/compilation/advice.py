"""What the author of a candidate should look at first, from the compiled kernels alone. Sentences, never a verdict."""

from __future__ import annotations

from collections.abc import Sequence

from d2k_agent.contract import KernelReport
from d2k_agent.evaluator.compilation.inspect_binary import TENSOR_CORE
from d2k_agent.evaluator.compilation.targets import Target
from d2k_agent.evaluator.compilation.tuning import Tuner

ASYNCHRONOUS_LOADS = ("cp.async", "tma_load")
NAMED_WORKLOADS = 2


def kernel_advice(kernel: KernelReport, multiplies: bool, remarks: Sequence[str], target: Target) -> list[str]:
    """Warnings about one kernel. `multiplies`: its source contains a matrix product; `remarks` are ptxas's own."""
    where = _where(kernel)
    found = []
    if kernel.spill_store_bytes or kernel.spill_load_bytes:
        found.append(
            f"{where} spills registers: {kernel.spill_store_bytes} bytes stored, {kernel.spill_load_bytes} bytes "
            f"loaded a thread, {kernel.registers} registers used. Use smaller tiles or more num_warps."
        )
    if kernel.shared_bytes > target.shared_limit_bytes:
        found.append(
            f"{where} needs {kernel.shared_bytes} bytes of shared memory; {target.name} offers "
            f"{target.shared_limit_bytes}: it cannot be launched. Use smaller tiles or fewer num_stages."
        )
    used = [kind for kind in TENSOR_CORE if kernel.instructions.get(kind)]
    best = "tcgen05.mma" if target.has_tensor_memory else "wgmma"
    if multiplies and not used:
        found.append(
            f"{where} multiplies matrices without any tensor-core instruction. Check operand types (float16, "
            f"bfloat16, float8; float32 only with input_precision='tf32') and that every tile side is at least 16."
        )
    elif used == ["mma.sync"]:
        found.append(
            f"{where} uses mma.sync where {target.name} has {best}, which is several times faster. Triton takes it "
            f"for tiles of at least 64 rows with num_warps of 4 or more, and operands that come from memory."
        )
    if used and not any(kernel.instructions.get(kind) for kind in ASYNCHRONOUS_LOADS):
        found.append(
            f"{where} multiplies what it loads without cp.async or TMA, so loads and products do not overlap. Triton "
            f"needs 16-byte alignment for them: strides that are multiples of 16 bytes, or tensor descriptors."
        )
    found += [f"{where}: ptxas says: {remark}" for remark in remarks]
    return found


def _where(kernel: KernelReport) -> str:
    """Name, line, and the workloads that launch this variant where they are few enough to read."""
    places = [f"line {kernel.source_line}"] if kernel.source_line else []
    if 0 < len(kernel.grids) <= NAMED_WORKLOADS:
        places.append(f"at {', '.join(kernel.grids)}")
    return f"kernel {kernel.name}" + (f" ({', '.join(places)})" if places else "")


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
