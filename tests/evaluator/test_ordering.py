"""The order of memory between ranks, by what compiled kernels do; and which PTX counts as such."""

from __future__ import annotations

import pytest

pytest.importorskip("triton")

from d2k_agent.contract import CompileReport, KernelReport
from d2k_agent.evaluator.checks.ordering import ordering_violations
from d2k_agent.evaluator.compilation.inspect_binary import count_instructions


def report(*kernels: dict[str, int]) -> CompileReport:
    found = tuple(KernelReport("k", 4, 2, 32, 0, 0, 0, 0, None, kinds, grids={"a": ((1,),)}) for kinds in kernels)
    return CompileReport("h200", "sm_90a", "3.6", found, ("a",))


@pytest.mark.parametrize(
    ("line", "kinds"),
    [
        ("@%p3 atom.global.sys.release.exch.b32 %r7, [ %rd2 + 0 ], %r8;", {"release.sys"}),
        ("@%p3 atom.global.acq_rel.sys.cas.b32 %r10, [ %rd2 + 0 ], %r8, %r11;", {"release.sys", "acquire.sys"}),
        ("@%p3 ld.global.sys.acquire.b32 %r2, [ %rd1 + 0 ];", {"acquire.sys"}),
        ("st.release.sys.global.u32 [%rd1], %r1;", {"release.sys"}),
        ("fence.acq_rel.sys;", {"release.sys", "acquire.sys"}),
        ("fence.sc.sys;", {"release.sys", "acquire.sys"}),
        ("membar.sys;", {"release.sys", "acquire.sys"}),
        ("@%p3 atom.global.sys.relaxed.add.u32 %r12, [ %rd2 + 0 ], %r8;", set()),
        ("@%p3 atom.global.gpu.release.add.u32 %r13, [ %rd2 + 0 ], %r8;", set()),
        ("ld.relaxed.sys.global.u32 %r1, [%rd1];\n\tfence.acq_rel.gpu;", set()),
    ],
)
def test_what_orders_memory_between_gpus(line: str, kinds: set[str]) -> None:
    assert {kind for kind in count_instructions(line) if kind.endswith(".sys")} == kinds


def test_both_sides_are_needed_of_several_ranks_and_none_of_one() -> None:
    telling, waiting, neither = {"release.sys": 1}, {"acquire.sys": 2}, {"atomic": 1}
    assert ordering_violations(report(telling, neither, waiting), 2) == ()
    assert ordering_violations(report(neither), 1) == ()
    (missing,) = ordering_violations(report(telling, neither), 4)
    assert missing.check == "compiled.ordering" and "waits for what other ranks tell" in missing.message
    assert len(ordering_violations(report(neither), 2)) == 2
