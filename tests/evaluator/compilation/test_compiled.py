"""What compiles: resources, instructions, grids and merging of the kernels that a candidate launches."""

from __future__ import annotations

import json
from typing import Any

from d2k_agent.contract.wire import to_data
from d2k_agent.evaluator.evidence import launched_when_compiled
from tests.evaluator.compilation.conftest import PAIR, PRODUCTION, ROOT, SQUARE, job

GIB = 1 << 30


def muon(target: str) -> dict[str, Any]:
    """The baseline of Muon at its registered workloads."""
    get_inputs = (ROOT / "tasks/muon/get_inputs.py").read_text()
    workloads = json.loads((ROOT / "tasks/muon/config.json").read_text())["workloads"]
    return {
        "path": str(ROOT / "guidance/muon/baseline.py"),
        "target": target,
        "workloads": [{"label": params["label"], "params": params, "get_inputs": get_inputs} for params in workloads],
    }


JOBS = {
    "pointers h200": job("pointer_product", "h200", PAIR, [[4096, 512], [512, 1024]]),
    "pointers b200": job("pointer_product", "b200", PAIR),
    "descriptors h200": job("descriptor_product", "h200", PAIR),
    "descriptors b200": job("descriptor_product", "b200", PAIR),
    "gluon": job("gluon_copy", "b300", SQUARE),
    "spilling": job("spilling", "h100", SQUARE),
    "autotuned": job("autotuned", "h200", SQUARE, [[64, 64]]),
    "reads values": job("reads_values", "h200", PRODUCTION, smoke=[{"label": "smoke.small", "shapes": [[32, 80]]}]),
    "asks for registers": job("asks_for_registers", "h200", SQUARE),
    "warned about": job("warned_about", "h200", SQUARE),
    "launches more later": job("launches_more_later", "h200", [[64, 64]]),
    "muon": muon("b200"),
}


def test_pointer_product_uses_the_tensor_cores_of_each_target(answers: dict[str, Any]) -> None:
    for target, instruction in (("h200", "wgmma"), ("b200", "tcgen05.mma")):
        answer = answers[f"pointers {target}"]
        kernel = answer.kernel("_product", BM="128")
        assert answer.report.error is None
        assert kernel.instructions[instruction] > 0 and "mma.sync" not in kernel.instructions
        assert kernel.instructions["cp.async"] > 0
        assert kernel.instructions["dot:bf16*bf16->f32"] == 1 and kernel.instructions["cvt:f32->bf16"] == 1
        assert 32 < kernel.registers <= 255 and kernel.spill_store_bytes == 0
        assert 32768 <= kernel.shared_bytes <= 232448
    assert answers["pointers h200"].report.architecture == "sm_90"
    assert answers["pointers h200"].kernel("_product", BM="128").tensor_memory_columns is None
    assert answers["pointers b200"].kernel("_product", BM="128").tensor_memory_columns >= 128


def test_one_kernel_over_two_workloads_is_one_row_with_the_grids_of_both(answers: dict[str, Any]) -> None:
    kernel = answers["pointers h200"].kernel("_product", BM="128")
    assert answers["pointers h200"].report.workloads == ("w0", "w1")
    assert set(answers["pointers h200"].report.peak_bytes) == {"w0", "w1"}
    assert kernel.grids == {"w0": ((64, 64, 1),), "w1": ((32, 8, 1),)}
    assert kernel.launches == 4
    assert kernel.constexprs == {"BM": "128", "BN": "128", "BK": "64"}
    assert kernel.source_line == 9


def test_what_only_a_later_call_launches_is_compiled_and_counts_no_launch(answers: dict[str, Any]) -> None:
    report = answers["launches more later"].report
    assert {kernel.name: (kernel.launches, kernel.grids) for kernel in report.kernels} == {
        "_twice": (1, {"w0": ((32, 1, 1),)}),
        "_thrice": (0, {"w0": ((32, 1, 1),)}),
    }
    assert launched_when_compiled(report, ["w0"]) == {"w0": {"_twice", "_thrice"}}


def test_mma_sync_where_a_faster_instruction_would_serve_is_a_warning(answers: dict[str, Any]) -> None:
    assert answers["pointers h200"].kernel("_product", BM="16").instructions["mma.sync"] > 0
    for target, better in (("h200", "wgmma"), ("b200", "tcgen05.mma")):
        warnings = [text for text in answers[f"pointers {target}"].report.warnings if "mma.sync" in text]
        assert len(warnings) == 1 and better in warnings[0] and "_product (line 9" in warnings[0]


def test_descriptors_become_tma_and_the_target_answers_host_code(answers: dict[str, Any]) -> None:
    for target, instruction, multiprocessors in (("h200", "wgmma", 132), ("b200", "tcgen05.mma", 148)):
        answer = answers[f"descriptors {target}"]
        assert answer.report.error is None
        product, device_side = answer.kernel("_product"), answer.kernel("_halve")
        assert product.instructions[instruction] > 0
        assert product.instructions["tma_load"] > 0 and product.instructions["tma_store"] > 0
        assert device_side.instructions["tma_load"] > 0 and device_side.instructions["tma_store"] > 0
        assert product.grids == {"w0": ((multiprocessors, 1, 1),)}
    assert answers["descriptors b200"].kernel("_product").num_warps > 4, "warp specialisation adds warps"


def test_gluon_kernels_are_compiled_too(answers: dict[str, Any]) -> None:
    report = answers["gluon"].report
    assert (report.error, report.architecture) == (None, "sm_103")
    assert answers["gluon"].kernel("_copy").constexprs == {"BLOCK": "1024", "layout": "BlockedLayout"}


def test_spills_are_counted_in_bytes_and_warned_about(answers: dict[str, Any]) -> None:
    kernel = answers["spilling"].kernel("_normalise_both")
    assert kernel.spill_store_bytes > 100 and kernel.spill_load_bytes > 100 and kernel.stack_bytes > 0
    assert any(f"{kernel.spill_store_bytes} bytes stored" in text for text in answers["spilling"].report.warnings)


def test_autotuning_compiles_eight_configurations_that_fit_and_counts_the_rest(answers: dict[str, Any]) -> None:
    report = answers["autotuned"].report
    assert report.error is None
    # Of 15 after pruning, the first four are refused by a static_assert: they count among the eight tried.
    assert report.not_compiled == 7
    assert len({(kernel.num_warps, kernel.constexprs["BLOCK"]) for kernel in report.kernels}) == 4
    assert any("4 do not fit" in text and "7 were not tried" in text for text in report.warnings)
    launched = [kernel for kernel in report.kernels if kernel.launches]
    assert [kernel.launches for kernel in launched] == [2], "configurations that were only tried are not launches"
    assert launched[0].constexprs == {"BLOCK": "128"}


def test_host_code_may_ask_a_compiled_kernel_for_its_registers(answers: dict[str, Any]) -> None:
    kernel = answers["asks for registers"].kernel("_scale")
    assert kernel.registers is not None
    assert kernel.grids["w0"] == ((132 * (65536 // (kernel.registers * 128)), 1, 1),)


def test_host_code_that_reads_values_is_compiled_at_reduced_shapes_and_told_so(
    answers: dict[str, Any],
) -> None:
    report = answers["reads values"].report
    assert report.error is None and report.workloads == ("smoke.small",)
    assert answers["reads values"].kernel("_copy").grids == {"smoke.small": ((20, 1, 1),)}
    assert [text for text in report.warnings if "idle" in text] == [], "20 blocks are all that such a shape has"
    assert any("reduced shapes (smoke.small)" in text for text in report.warnings)


def test_muon_compiles_at_its_production_shapes_without_their_memory(answers: dict[str, Any]) -> None:
    answer = answers["muon"]
    assert answer.report.error is None and len(answer.report.workloads) == 3
    products = [kernel for kernel in answer.report.kernels if kernel.instructions.get("tcgen05.mma")]
    assert products and all("dot:f16*f16->f32" in kernel.instructions for kernel in products)
    assert {label for kernel in products for label in kernel.grids} == set(answer.report.workloads)
    assert answer.peak_bytes < 2 * GIB


def test_what_multiplies_and_moves_is_read_from_the_code(answers: dict[str, Any]) -> None:
    wide, narrow = (answers["pointers b200"].kernel("_product", BM=rows) for rows in ("128", "16"))
    assert (wide.matrix, narrow.matrix) == (("tcgen05.mma",), ("mma.sync",))
    assert answers["descriptors h200"].kernel("_product").matrix == ("wgmma",)
    assert set(wide.global_loads) == {"16"} and set(wide.global_stores) == {"16"}
    assert answers["descriptors h200"].kernel("_halve").global_loads == {}, "TMA moves it all"
    copy = answers["gluon"].kernel("_copy")
    assert copy.matrix == () and set(copy.global_loads) == {"16"}


def test_occupancy_is_estimated_from_the_resources_that_are_reported(answers: dict[str, Any]) -> None:
    answer = answers["pointers b200"]
    product = answer.kernel("_product", BM="128")
    assert product.occupancy.blocks == 233472 // (product.shared_bytes + 1024) == 2
    assert product.occupancy.limiters == ("shared memory",)
    assert product.occupancy.limits["tensor memory"] == 512 // product.tensor_memory_columns
    assert (answer.report.multiprocessors, answer.report.shared_limit_bytes) == (148, 232448)


def test_each_warning_has_the_kernel_the_evidence_and_a_cure_in_one_line(answers: dict[str, Any]) -> None:
    report = answers["warned about"].report
    assert report.error is None
    told = {text.split(" ", 3)[1]: text for text in report.warnings}
    assert "multiplies 32x32 by 32x32 tiles of f32 by FMA, without a tensor core. Set input_precision" in told["_exact"]
    assert "loads from global memory 2 bytes at a time (" in told["_uneven"] and "bounds of masks" in told["_uneven"]
    assert "launches 2 blocks at w0: 130 of the 132 multiprocessors of h200 stay idle" in told["_few"]
    assert "its largest tile has 256 bytes for 128 threads" in told["_tiny"]
    assert set(told) == {"_exact", "_uneven", "_few", "_tiny"}, "nothing else has anything to be told"
    assert not any("\n" in text for text in report.warnings)


def test_reports_are_bounded_data(answers: dict[str, Any]) -> None:
    for answer in answers.values():
        assert len(answer.report.kernels) <= 200
        assert len(str(to_data(answer.report))) < 200_000
