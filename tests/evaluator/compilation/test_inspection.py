"""Reading ptxas's log and the compiler's texts: what is there is counted, what is not said is unknown."""

from __future__ import annotations

from d2k_agent.evaluator.compilation.inspect_binary import count_instructions, count_products, has_product, read_log

LOG = """\
ptxas info    : (C7519) Potential Performance Loss: wgmma.mma_async instructions are serialized due to x in 'k'
ptxas info    : 12 bytes gmem
ptxas info    : Function properties for k
    64 bytes stack frame, 40 bytes spill stores, 44 bytes spill loads
ptxas info    : Used 168 registers, used 3 barriers, 64 bytes cumulative stack size
"""


def test_a_log_gives_registers_spills_stack_and_performance_remarks() -> None:
    found = read_log(LOG)
    assert (found.registers, found.stack_bytes, found.spill_store_bytes, found.spill_load_bytes) == (168, 64, 40, 44)
    assert found.remarks == ("wgmma.mma_async instructions are serialized due to x in 'k'",)


def test_a_silent_log_leaves_everything_unknown_and_nothing_zero() -> None:
    found = read_log("")
    assert (found.registers, found.stack_bytes, found.spill_store_bytes, found.spill_load_bytes) == (None,) * 4


def test_loads_and_stores_of_tma_are_told_apart_and_absent_kinds_are_left_out() -> None:
    ptx = """
    cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], [%r4];
    cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r2, %r3}], [%r1];
    cp.async.cg.shared.global [ %r1 + 0 ], [ %rd1 + 0 ], 0x10, %r2;
    wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {...};
    """
    assert count_instructions(ptx) == {"wgmma": 1, "tma_load": 1, "tma_store": 1, "cp.async": 1}


def test_products_and_narrowing_casts_are_counted_by_type() -> None:
    ir = """
    %5 = tt.dot %3, %4, %acc, inputPrecision = tf32 : tensor<128x64xf16> * tensor<64x128xf16> -> tensor<128x128xf32>
    %6 = tt.dot %3, %4, %acc : tensor<16x16xf8E4M3FN, #a> * tensor<16x16xf8E5M2, #b> -> tensor<16x16xf32, #c>
    %7 = arith.truncf %6 : tensor<128x128xf32, #c> to tensor<128x128xbf16, #c>
    """
    assert count_products(ir) == {
        "dot:f16*f16->f32": 1,
        "dot:f8E4M3FN*f8E5M2->f32": 1,
        "cvt:f32->bf16": 1,
    }
    assert has_product(ir) and not has_product("%1 = arith.addf %a, %b : tensor<64xf32>")
