"""The page of `inspect`: outcome and warnings of each target, a row for what is alike, unknown said as such."""

from __future__ import annotations

from dataclasses import replace

from d2k_agent.catalog import samples_dir
from d2k_agent.contract import CompileReport, KernelReport, VerdictStatus, Violation
from d2k_agent.contract.compilation import Occupancy
from d2k_agent.contract.wire import from_data
from d2k_agent.records import VerdictReached, read_trace
from d2k_agent.reports.inspect_text import Inspected, inspect_data, inspect_text
from tests.reports.test_compile_text import COPY, PRODUCT
from tests.reports.test_verdict_text import verdict

READ = replace(
    PRODUCT,
    num_ctas=1,
    matrix=("tcgen05.mma", "FMA"),
    global_loads={"2": 4, "16": 8},
    global_stores={"16": 2},
    occupancy=Occupancy(1, 4, 64, {"registers": 2, "shared memory": 1, "warps": 16, "blocks": 32}),
    grids={"small": ((148, 1, 1),), "large": ((148, 1, 1), (64, 2, 1))},
)
REPORT = CompileReport(
    "b200",
    "sm_100",
    "3.7.1",
    (READ,),
    ("small", "large"),
    warnings=("kernel product (line 30) spills registers: 44676 bytes stored",),
    multiprocessors=148,
    shared_limit_bytes=232448,
)


def inspected(report: CompileReport | None, status: VerdictStatus = VerdictStatus.UNTIMED, **more: str) -> Inspected:
    message = more.pop("message", "it compiles")
    return Inspected("b200", verdict(status, message=message, compile_report=report), **more)


def row(report: CompileReport, name: str) -> dict[str, str]:
    """The cells of the row that begins with `name`, by column (two blanks or more lie between cells)."""
    lines = inspect_text([inspected(report)]).splitlines()
    header = next(line for line in lines if line.startswith("kernel:line"))
    found = next(line for line in lines if line.startswith(name))
    titles = [title for title in header.split("  ") if title.strip()]
    cells = [cell for cell in found.split("  ") if cell.strip()]
    return {title.strip(): cell.strip() for title, cell in zip(titles, cells, strict=True)}


def test_a_row_tells_what_a_kernel_takes_does_and_leaves_free() -> None:
    cells = row(REPORT, "product:30")
    assert cells["grids for 148 SMs"] == "148x1x1, 64x2x1"
    assert cells["shared B of 232,448"] == "131,072" and cells["spill B"] == "84" and cells["tmem"] == "256"
    assert cells["matrix"] == "tcgen05.mma, FMA" and cells["TMA"] == "load"
    assert cells["load/store B"] == "2-16/16"
    assert cells["occupancy (estimate)"] == "1 block, 4 of 64 warps (6 %): shared memory"


def test_what_nobody_read_is_unknown() -> None:
    old = replace(REPORT, kernels=(replace(PRODUCT, registers=None),), multiprocessors=None, shared_limit_bytes=None)
    cells = row(old, "product:30")
    assert cells["registers"] == cells["matrix"] == cells["occupancy (estimate)"] == "unknown"
    assert cells["load/store B"] == "unknown/unknown" and "shared B" in cells and "grids" in cells


def test_variants_that_differ_in_nothing_but_grids_and_constants_share_a_row() -> None:
    variants = [replace(READ, constexprs={"M": size}, grids={size: ((int(size), 1, 1),)}) for size in ("2", "4", "8")]
    cells = row(replace(REPORT, kernels=(*variants, COPY)), "product:30")
    told = inspect_text([inspected(replace(REPORT, kernels=(*variants, COPY)))]).splitlines()[0]
    assert told.endswith(
        "4 kernel variants launched at small, large, in 2 rows, those that need and do the same in one"
    )
    assert " rows" not in inspect_text([inspected(REPORT)]).splitlines()[0]
    assert cells["launches"] == "9" and cells["grids for 148 SMs"] == "2x1x1, 4x1x1, 1 more"


def test_each_target_has_its_outcome_and_its_warnings_and_the_reading_is_told_once() -> None:
    hopper = replace(REPORT, target="h200", architecture="sm_90", warnings=())
    text = inspect_text([inspected(REPORT), inspected(hopper)])
    first, second = (text.index(f"{name} (sm_") for name in ("b200", "h200"))
    assert first < text.index("warning: kernel product (line 30) spills registers: 44676 bytes") < second
    assert text.count("Nothing ran") == 1 and text.count("estimate") == 2


def test_many_warnings_are_bounded_and_the_rest_is_counted() -> None:
    text = inspect_text([inspected(replace(REPORT, warnings=tuple(f"warning {index}" for index in range(50))))])
    assert text.count("warning: ") == 20 and "30 more warnings left out" in text


def test_an_error_comes_first_and_a_verdict_without_a_report_is_told_by_its_message() -> None:
    broken = replace(REPORT, kernels=(), error="kernel a does not fit b200", error_kind="compile")
    text = inspect_text([inspected(broken, VerdictStatus.COMPILE_ERROR, message="kernel a does not fit b200")])
    assert text.startswith("b200 (sm_100, Triton 3.7.1): does not compile: kernel a does not fit b200")
    assert text.count("kernel a does not fit") == 1
    launched = row(replace(REPORT, error="kernel a does not fit b200", error_kind="launch"), "product:30")
    assert launched["launches"] == "3"
    text = inspect_text([inspected(replace(REPORT, error="it does not fit", error_kind="launch"))])
    assert text.startswith("b200 (sm_100, Triton 3.7.1): does not launch: it does not fit\n")
    assert "occupancy: blocks" in text and "occupancy" not in inspect_text([inspected(replace(REPORT, kernels=()))])
    timed_out = inspect_text([inspected(None, VerdictStatus.TIMED_OUT, message="compiling took too long")])
    assert timed_out == "b200: timed_out: compiling took too long"
    rule = Violation("static.tensor_methods", "no .item", 21)
    refused = verdict(VerdictStatus.RULE_VIOLATION, message="no .item", compile_report=None, violations=(rule,))
    assert (
        inspect_text([Inspected("b200", refused)])
        == "b200: rule_violation: no .item\n  line 21, static.tensor_methods: no .item"
    )


def test_a_report_from_the_cache_says_so_in_words_and_in_data() -> None:
    kept = inspected(REPORT, kept_since="2026-11-30T03:57:35+00:00")
    assert "kept since 2026-11-30T03:57:35+00:00" in inspect_text([kept])
    assert "kept since" not in inspect_text([inspected(REPORT)])
    data = inspect_data([kept, inspected(REPORT)])
    assert [item["kept_since"] for item in data["reports"]] == ["2026-11-30T03:57:35+00:00", None]
    kernel: KernelReport = data["reports"][0]["verdict"]["compile_report"]["kernels"][0]
    assert kernel["occupancy"]["limits"]["shared memory"] == 1


def test_a_report_of_an_older_record_is_still_read() -> None:
    events = read_trace(samples_dir() / "muon").events
    recorded = next(item.verdict.compile_report for item in events if isinstance(item, VerdictReached))
    assert recorded is not None and "multiprocessors" not in recorded
    report = from_data(CompileReport, recorded)
    assert report.kernels[0].matrix is None and report.kernels[0].occupancy is None
    assert "unknown" in inspect_text([inspected(report)])
