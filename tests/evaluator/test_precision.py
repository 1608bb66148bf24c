"""The precision that a task prescribes, as it is read off what was compiled."""

from __future__ import annotations

from d2k_agent.contract import CompileReport, KernelReport
from d2k_agent.evaluator.checks.precision import precision_violations

RULE = {"operands": ["f16"], "accumulators": ["f32"], "output_only": ["f32->bf16"]}


def kernel(name: str, line: int, *instructions: str, workload: str = "large") -> KernelReport:
    counts = dict.fromkeys(instructions, 1)
    return KernelReport(name, 4, 2, 32, 0, 0, 0, 0, None, counts, grids={workload: ((1,),)}, source_line=line)


def found(*kernels: KernelReport) -> list[str]:
    report = CompileReport("h200", "sm_90a", "3.6", kernels, ("large", "small"))
    return [violation.message for violation in precision_violations(report, RULE)]


def test_variants_of_one_kernel_may_write_the_output_together() -> None:
    body, tail = (kernel("store", 10, "cvt:f32->bf16") for _ in range(2))
    assert found(body, tail) == []
    (message,) = found(body, tail, kernel("narrow", 20, "cvt:f32->bf16"))
    assert message.startswith("2 kernels convert f32->bf16 at large")
    (message,) = found(body, kernel("store", 20, "cvt:f32->bf16"))
    assert message.startswith("2 kernels")


def test_kernels_of_different_workloads_may_each_write_the_output() -> None:
    assert found(kernel("a", 10, "cvt:f32->bf16"), kernel("b", 20, "cvt:f32->bf16", workload="small")) == []


def test_a_product_of_other_types_is_found() -> None:
    (message,) = found(kernel("gram", 10, "dot:f16*f16->f32", "dot:bf16*bf16->f32"))
    assert "gram multiplies bf16 by bf16 into f32" in message
