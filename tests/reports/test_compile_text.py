"""A compile report in words: the most important first, bounded, and honest about what it leaves out."""

from __future__ import annotations

from dataclasses import replace

from d2k_agent.contract import CompileReport, KernelReport
from d2k_agent.reports.compile_text import compile_text

COPY = KernelReport(
    name="copy",
    num_warps=4,
    num_stages=3,
    registers=20,
    spill_store_bytes=0,
    spill_load_bytes=0,
    stack_bytes=0,
    shared_bytes=0,
    tensor_memory_columns=0,
    instructions={"bar.sync": 2},
    launches=90,
    source_line=7,
)
PRODUCT = replace(
    COPY,
    name="product",
    registers=250,
    spill_store_bytes=40,
    spill_load_bytes=44,
    shared_bytes=131072,
    tensor_memory_columns=256,
    instructions={"tcgen05.mma": 8, "tma_load": 2, "bar.sync": 9},
    constexprs={"BM": "128", "BN": "256"},
    launches=3,
    source_line=30,
)
REPORT = CompileReport("b200", "sm_100", "3.7.1", (COPY, PRODUCT), ("small", "large"))


def test_products_come_first_with_their_resources_and_tile_sizes() -> None:
    lines = compile_text(REPORT).splitlines()
    product = next(index for index, line in enumerate(lines) if line.startswith("product:30"))
    copy = next(index for index, line in enumerate(lines) if line.startswith("copy:7"))
    assert product < copy
    for told in ("250", "84", "131,072", "256", "8 tcgen05.mma, 2 tma_load", "BM=128 BN=256"):
        assert told in lines[product]


def test_the_target_and_that_nothing_ran_are_said_first() -> None:
    first = compile_text(REPORT).splitlines()[0]
    assert "b200 (sm_100, Triton 3.7.1)" in first and "at small, large" in first and "compile and fit" in first


def test_each_kind_of_failure_has_its_own_opening() -> None:
    openings = {
        "compile": "Does not compile for b200",
        "launch": "Does not launch for b200",
        "run": "Its Python code fails before its kernels are compiled for b200",
        "time": "Not compiled in time for b200",
        None: "Does not compile for b200",
    }
    for kind, opening in openings.items():
        assert compile_text(replace(REPORT, error="because", error_kind=kind)).startswith(opening)


def test_variants_that_only_an_autotuner_saw_share_a_line() -> None:
    tried = tuple(replace(PRODUCT, registers=registers, launches=0) for registers in (100, 128, 90))
    text = compile_text(replace(REPORT, kernels=(COPY, PRODUCT, *tried), not_compiled=5))
    assert "product: 3 more variant(s) compiled and not launched by the first call, registers 90 to 128" in text
    assert "shared bytes 131,072" in text
    assert text.count("product:30") == 1
    assert "5 autotuner configuration(s) were left out" in text


def test_text_stays_within_its_bound_and_says_how_many_rows_it_drops() -> None:
    many = replace(REPORT, kernels=tuple(replace(COPY, name=f"kernel_{i}", launches=i + 1) for i in range(200)))
    text = compile_text(many, max_chars=2500)
    assert len(text) <= 2500 and "kernel_199:7" in text and "kernel_0:7" not in text
    shown = sum(line.startswith("kernel_") for line in text.splitlines())
    assert f"{200 - shown} more launched kernel variant(s) left out" in text
    assert len(compile_text(replace(REPORT, error="x" * 4000), max_chars=300)) <= 300
