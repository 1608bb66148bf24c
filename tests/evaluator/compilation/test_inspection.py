"""Reading ptxas's log and the compiler's texts: what is there is counted, what is not said is unknown."""

from __future__ import annotations

from d2k_agent.evaluator.compilation.inspect_binary import (
    Access,
    Product,
    count_instructions,
    has_loop,
    has_product,
    left_products,
    read_accesses,
    read_log,
)

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
    assert found.barriers == 3
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


def test_products_that_stayed_are_told_by_their_layout() -> None:
    left = "tensor<16x64xbf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>"
    right = "tensor<64x32xbf16, #ttg.dot_op<{opIdx = 1, parent = #mma, kWidth = 2}>>"
    wide = "tensor<2x8x16xf32, #ttg.dot_op<{opIdx = 0, parent = #blocked1}>>"
    tall = "tensor<2x16x8xf32, #ttg.dot_op<{opIdx = 1, parent = #blocked1}>>"
    aliases = "#blocked1 = #ttg.blocked<{sizePerThread = [1, 1]}>\n#mma = #ttg.nvidia_mma<{versionMajor = 2}>\n"
    ir = f"""{aliases}
    scf.for %k = %c0 to %n step %c1 {{
      %a = tt.dot %x, %y, %acc, inputPrecision = tf32 : {left} * {right} -> tensor<16x32xf32, #mma> loc(#loc69)
      %b = tt.dot %v, %w, %acc : {wide} * {tall} -> tensor<2x8x8xf32, #blocked1> loc(#loc70)
      %c = ttng.warp_group_dot %x, %y, %acc : !ttg.memdesc<64x64xf16, #shared> -> tensor<64x64xf32, #mma1>
    }}
    """
    assert left_products(ir) == (
        Product("mma.sync", 16, 32, 64, "bf16", tf32=True),
        Product("FMA", 8, 8, 16, "f32", tf32=False),
    )
    assert has_loop(ir) and not has_loop("%1 = tt.load %p")
    assert has_product(ir) and not has_product("%1 = arith.addf %a, %b : tensor<64xf32>")


def test_accesses_are_counted_by_what_one_moves_for_a_thread() -> None:
    ptx = """
    @%p1 ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];
    @%p1 ld.global.L1::evict_last.L2::cache_hint.v8.b32 { %r5 }, [ %rd2 + 0 ], %rd9;
    ld.acquire.gpu.global.b16 { %rs1 }, [ %rd3 ];
    cp.async.cg.shared.global [ %r9 + 0 ], [ %rd4 + 0 ], 0x10, %r8;
    cp.async.ca.shared.global [ %r9 + 0 ], [ %rd4 + 0 ], 4, %r8;
    cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], [%r4];
    ld.shared.v4.b32 { %r1, %r2, %r3, %r4 }, [ %r5 ];
    ld.param.b64 %rd1, [k_param_0];
    st.global.v2.b16 [ %rd5 + 0 ], { %rs1, %rs2 };
    """
    ir = """
    %a = tt.load %p, %mask, %other : tensor<4x1024x!tt.ptr<bf16>, #blocked> loc(#loc1)
    %b = ttg.async_copy_global_to_local %q, %r mask %m {contiguity = 8} : tensor<64x32x!tt.ptr<f8E4M3FN>, #b> -> <x>
    %c = tt.load %scalar : !tt.ptr<f32>
    tt.store %s, %v : tensor<128x!tt.ptr<i1>, #blocked>
    """
    loads, stores = read_accesses(ptx, ir)
    assert loads == Access({2: 1, 4: 1, 16: 2, 32: 1}, ((4096, 2), (2048, 1)))
    assert stores == Access({4: 1}, ((128, 1),))
