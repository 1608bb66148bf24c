"""Element types of products and narrowing conversions, from texts as Triton 3.6 and 3.7 write them."""

from __future__ import annotations

import pytest

from d2k_agent.evaluator.element_types import count_types

F16_DOT = """
    %5 = tt.dot %3, %4, %acc, inputPrecision = tf32 : tensor<128x64xf16> * tensor<64x128xf16> -> tensor<128x128xf32>
    %7 = arith.truncf %5 : tensor<128x128xf32, #c> to tensor<128x128xbf16, #c>
"""
F16_WGMMA = """
    wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%r148,%r149}, %rd39, %rd40, 0, 1, 1, 1, 1;
    wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%r148,%r149}, %rd41, %rd42, 0, 1, 1, 1, 1;
    cvt.f32.f16 %r12, %rs10;
    cvt.rn.bf16x2.f32 %r140, %r283, %r282;
"""
F32_DOT = "%5 = tt.dot %3, %4, %acc : tensor<64x32xf32, #a> * tensor<32x64xf32, #b> -> tensor<64x64xf32, #mma>"
TCGEN05 = "@%p18 tcgen05.mma.cta_group::1.kind::f16 [ %r480 + 0 ], [ %r279 + 0 ], %rd66, %r280, %p17;"


def gen5(operand: str) -> str:
    """TTGIR of a product by tcgen05.mma, its left operand in tensor memory."""
    left, right = (
        f"!ttg.memdesc<64x32x{operand}, #tmem1, #ttng.tensor_memory>",
        f"!ttg.memdesc<32x64x{operand}, #s, #m>",
    )
    sums, barrier = (
        "!ttg.memdesc<64x64xf32, #tmem, #ttng.tensor_memory, mutable>",
        "!ttg.memdesc<1xi64, #s, #m, mutable>",
    )
    return (
        f"ttng.tc_gen5_mma %a, %b, %c[%t], %f, %t, %d[%t] {{is_async}} : {left}, {right}, {sums}, {barrier} loc(#l)\n"
    )


def test_what_the_ttir_names_is_counted_in_its_operations() -> None:
    assert count_types(F16_WGMMA, F16_DOT, "") == {"cvt:f32->bf16": 1, "dot:f16*f16->f32": 1}
    ir = "%6 = tt.dot %3, %4, %acc : tensor<16x16xf8E4M3FN, #a> * tensor<16x16xf8E5M2, #b> -> tensor<16x16xf32, #c>"
    assert count_types("", ir, "") == {"dot:f8E4M3FN*f8E5M2->f32": 1}


def test_without_a_ttir_the_ptx_tells_all_of_it() -> None:
    assert count_types(F16_WGMMA, "", "") == {"cvt:f32->bf16": 1, "dot:f16*f16->f32": 2}


def test_a_product_of_f32_is_told_as_it_is_carried_out_too() -> None:
    ptx = "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%r1}, {%r140,%r141,%r142,%r143}, %rd40, 0, 1, 1, 1;"
    assert count_types(ptx, F32_DOT, "") == {"dot:bf16*bf16->f32": 1, "dot:f32*f32->f32": 1}
    ptx = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f0}, {%r0}, {%r4}, {%f0};"
    assert count_types(ptx, F32_DOT, "") == {"dot:f32*f32->f32": 1, "dot:tf32*tf32->f32": 1}


def test_types_of_tcgen05_are_those_of_the_ttgir() -> None:
    assert count_types(TCGEN05, "", gen5("f16")) == {"dot:f16*f16->f32": 1}
    assert count_types(TCGEN05 * 4, F32_DOT, gen5("bf16") * 3) == {"dot:bf16*bf16->f32": 3, "dot:f32*f32->f32": 1}
    assert count_types(TCGEN05, "", gen5("f32")) == {"dot:tf32*tf32->f32": 1}
    assert count_types("tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%rd1];", "", "") == {}


def test_tcgen05_that_the_ttgir_does_not_account_for_is_unread() -> None:
    by_hand = (
        '%y = tt.elementwise_inline_asm "{ tcgen05.mma.cta_group::1.kind::f16 \\22\\0A }" {constraints = "=r"} %x\n'
    )
    assert count_types(TCGEN05, "", "") == {"dot:?": 1}
    assert count_types(TCGEN05, "", gen5("f16") + by_hand) == {"dot:?": 1}


@pytest.mark.parametrize(
    ("ptx", "name"),
    [
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f0}, {%r0}, {%r4}, {%f0};", "dot:bf16*bf16->f32"),
        ('mma /* .f16 */ .m16n8k16.sync // "\n .aligned.row.col.f32.bf16.bf16.f32 {%f0};', "dot:bf16*bf16->f32"),
        ("@%p0 mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%f0};", "dot:f16*f16->f32"),
        (
            "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e5m2.f32.ue8m0 {%f0};",
            "dot:f8E4M3FN*f8E5M2->f32",
        ),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16 {%r0};", "dot:f16*f16->f16"),
        ("wgmma.mma_async.sync.aligned.m64n8k32.s32.u8.s8 {%r0}, %rd0, %rd1, 1;", "dot:i8*i8->i32"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.new16.new16.f32 {%f0}, {%r0}, {%r4}, {%f0};", "dot:?"),
        ('.pragma "a // "; mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d0};', "dot:f64*f64->f64"),
        ("cvt.rn.bf16.f32 %rs1, %f1;", "cvt:f32->bf16"),
        ("cvt .rz.relu.bf16x2.f32 %r1, %f1, %f2;", "cvt:f32->bf16"),
        ("cvt.rn.bf16.f16 %rs1, %rs2;", "cvt:f16->bf16"),
        ("cvt.rn.satfinite.e4m3x2.f32 %rs1, %f1, %f2;", "cvt:f32->f8E4M3FN"),
    ],
)
def test_an_instruction_is_read_in_each_spelling_that_the_assembler_takes(ptx: str, name: str) -> None:
    assert count_types(ptx, "", "") == {name: 1}


def test_what_is_no_product_and_narrows_nothing_is_not_told() -> None:
    ptx = """
    // mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 and cvt.rn.bf16.f32
    /* wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 */
    .file 1 "/tmp/mma.sync.bf16.bf16.py"
    cvt.f32.bf16 %f1, %rs1;
    cvt.rn.f32.s32 %f2, %r2;
    cvt.u64.u32 %rd1, %r2;
    wgmma.fence.sync.aligned;
    wmma.load.a.sync.aligned.row.m16n16k16.bf16 {%r1}, [%rd1];
    mov.b32 %r1, %cvt.rn.bf16.f32;
    """
    assert count_types(ptx, "", "") == {}


def test_the_last_of_several_sums_counts_like_the_first() -> None:
    ptx = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f16 {%f0}, {%r0}, {%r4}, {%r8};"
    assert count_types(ptx, "", "") == {"dot:f16*f16->f16": 1, "dot:f16*f16->f32": 1}
