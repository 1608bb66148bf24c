"""The precision that a task prescribes, as it is read off what was compiled."""

from __future__ import annotations

from d2k_agent.contract import CompileReport, KernelReport
from d2k_agent.evaluator.checks.precision import precision_violations

RULE = {"operands": ["f16", "tf32", "f32"], "accumulators": ["f32"], "output_only": ["f32->bf16"]}


def kernel(name: str, line: int, *instructions: str, workload: str = "large") -> KernelReport:
    counts = dict.fromkeys(instructions, 1)
    return KernelReport(name, 4, 2, 32, 0, 0, 0, 0, None, counts, grids={workload: ((1,),)}, source_line=line)


def found(*kernels: KernelReport, rule: dict[str, list[str]] = RULE) -> list[str]:
    report = CompileReport("h200", "sm_90a", "3.6", kernels, ("large", "small"))
    return [violation.message for violation in precision_violations(report, rule)]


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


def test_a_product_of_f32_that_is_carried_out_in_bf16_is_found_and_told_what_to_set() -> None:
    (message,) = found(kernel("gram", 10, "dot:f32*f32->f32", "dot:bf16*bf16->f32"))
    assert "gram multiplies bf16 by bf16 into f32" in message
    assert message.endswith("set its input_precision to 'tf32' or 'ieee'")


def test_tf32_needs_a_rule_that_allows_it() -> None:
    assert found(kernel("gram", 10, "dot:f32*f32->f32", "dot:tf32*tf32->f32")) == []
    exact = {"operands": ["f32"], "accumulators": ["f32"]}
    (message,) = found(kernel("gram", 10, "dot:f32*f32->f32", "dot:tf32*tf32->f32"), rule=exact)
    assert message.endswith("set its input_precision to 'ieee'")


def test_a_product_that_cannot_be_read_is_found_where_operands_are_prescribed() -> None:
    unread = kernel("gram", 10, "dot:f16*f16->f32", "dot:?")
    (message,) = found(unread)
    assert "gram multiplies matrices by instructions" in message and "not as inline PTX" in message
    assert found(unread, rule={"output_only": ["f32->bf16"]}) == found(unread, rule={}) == []


def test_values_come_to_the_narrow_type_from_any_float() -> None:
    (message,) = found(kernel("a", 10, "cvt:f32->bf16"), kernel("b", 20, "cvt:f16->bf16"))
    assert message.startswith("2 kernels convert f32->bf16 at large (a, b): only")
    assert found(kernel("a", 10, "cvt:f32->bf16"), kernel("b", 20, "cvt:f32->f16")) == []
