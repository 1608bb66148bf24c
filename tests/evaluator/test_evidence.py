"""What ran for a candidate: which kernels are its own or glue, which libraries it may load, and what is told of it."""

from __future__ import annotations

import json
import mmap
import os
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import pytest

from d2k_agent.contract import MOST_KERNELS, CompileReport, KernelReport
from d2k_agent.evaluator.evidence import (
    GLUE,
    NO_FILE,
    Observed,
    as_compiled,
    borrowed_names,
    launched_when_compiled,
    libraries_allowed,
    own_kernels,
    own_launches,
    same_launches,
)
from d2k_agent.evaluator.faults import CandidateFault
from d2k_agent.evaluator.kernel_names import is_borrowed
from d2k_agent.evaluator.profiling.table import read_launches
from d2k_agent.isolation import libraries_of
from tests.evaluator.scaling import HONEST

FILL = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_"
COPY = (
    "_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_22gpu_kernel_impl_nocastIZZZNS0_23direct_copy_kerne"
    "l_cudaERNS_18TensorIteratorBaseEENKUlvE1_clEvENKUlvE10_clEvEUlN3c108BFloat16EE_EEvS4_RKT_EUliE_EEviT"
    "1_"
)
COPY_FP8 = (
    "_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_22gpu_kernel_impl_nocastIZNS0_23float8_copy_kernel_"
    "cudaERNS_18TensorIteratorBaseEEUlN3c1013Float8_e4m3fnEE_EEvS4_RKT_EUliE_EEviT1_"
)
CASTS = {
    "strided, as its source has it": (
        "_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_15gpu_kernel_implIZZZNS0_23direct_copy_kernel_cudaE"
        "RNS_18TensorIteratorBaseEENKUlvE1_clEvENKUlvE5_clEvEUlfE_EEvS4_RKT_EUliE_EEviT1_"
    ),
    "f16 to f8, as its source has it": (
        "_ZN2at6native29vectorized_elementwise_kernelILi4EZNS0_23float8_copy_kernel_cudaERNS_18TensorIterator"
        "BaseEEUlN3c104HalfEE_St5arrayIPcLm2EEEEviT0_T1_"
    ),
    "f32 to bf16": (
        "_ZN2at6native29vectorized_elementwise_kernelILi8EZNS0_25bfloat16_copy_kernel_cudaERNS_18TensorIterat"
        "orBaseEEUlfE_St5arrayIPcLm2EEEEviT0_T1_"
    ),
    "f32 to f16": (
        "_ZN2at6native29vectorized_elementwise_kernelILi8EZNS0_24float16_copy_kernel_cudaERNS_18TensorIterato"
        "rBaseEEUlfE_St5arrayIPcLm2EEEEviT0_T1_"
    ),
    "f32 to f8": (
        "_ZN2at6native29vectorized_elementwise_kernelILi4EZNS0_23float8_copy_kernel_cudaERNS_18TensorIterator"
        "BaseEEUlfE_St5arrayIPcLm2EEEEviT0_T1_"
    ),
    "f16 to f32": (
        "_ZN2at6native27unrolled_elementwise_kernelIZZZNS0_23direct_copy_kernel_cudaERNS_18TensorIteratorBase"
        "EENKUlvE1_clEvENKUlvE5_clEvEUlfE_St5arrayIPcLm2EELi4E23TrivialOffsetCalculatorILi1EjESB_NS0_6memory1"
        "2LoadWithCastILi1EEENSC_13StoreWithCastILi1EEEEEviT_T0_T2_T3_T4_T5_"
    ),
    "bf16 to f16": (
        "_ZN2at6native27unrolled_elementwise_kernelIZZZNS0_23direct_copy_kernel_cudaERNS_18TensorIteratorBase"
        "EENKUlvE1_clEvENKUlvE8_clEvEUlN3c104HalfEE_St5arrayIPcLm2EELi4E23TrivialOffsetCalculatorILi1EjESD_NS"
        "0_6memory12LoadWithCastILi1EEENSE_13StoreWithCastILi1EEEEEviT_T0_T2_T3_T4_T5_"
    ),
    "f8 to bf16": (
        "_ZN2at6native27unrolled_elementwise_kernelIZZZNS0_23direct_copy_kernel_cudaERNS_18TensorIteratorBase"
        "EENKUlvE1_clEvENKUlvE10_clEvEUlN3c108BFloat16EE_St5arrayIPcLm2EELi4E23TrivialOffsetCalculatorILi1EjE"
        "SD_NS0_6memory12LoadWithCastILi1EEENSE_13StoreWithCastILi1EEEEEviT_T0_T2_T3_T4_T5_"
    ),
}
"""As PyTorch 2.11 launches them on an H200, and two that were not recorded."""


NVJET = "nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NNT"
MUL = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_10MulFunctorIfEESt5arrayIPcLm3EEEEviT0_T1_"


def kernel(name: str, *labels: str) -> KernelReport:
    """A kernel that was launched at these workloads."""
    grids: dict[str, tuple[tuple[int, ...], ...]] = dict.fromkeys(labels, ((1, 1, 1),))
    return KernelReport(name, 4, 3, 32, 0, 0, 0, 0, None, {}, grids=grids, launches=len(labels), source_line=7)


def report(*kernels: KernelReport, **more: Any) -> CompileReport:
    return CompileReport("h200", "sm_90", "3.6.0", kernels, ("w", "v"), **more)


def test_kernels_of_a_source_are_its_jit_functions_also_autotuned_ones() -> None:
    tuned = HONEST.replace("@triton.jit", "@triton.autotune(configs=[triton.Config({})], key=['n'])\n@triton.jit")
    assert own_kernels(HONEST, None) == own_kernels(tuned, None) == {"_scale"}


def test_own_kernels_are_those_that_were_launched_when_the_source_was_compiled() -> None:
    decoy = HONEST + "\n\n@triton.jit\ndef decoy(x):\n    tl.store(x, 0)\n"
    told = report(kernel("_scale", "w"), kernel("_other", "v"), kernel("_tuned"))
    launched = launched_when_compiled(told, ["w", "v"])
    assert launched == {"w": {"_scale"}, "v": {"_other"}}
    assert own_kernels(decoy, told, launched) == {"_scale", "_other"}
    assert own_kernels(decoy, told) == {"_scale", "decoy", "_other", "_tuned"}


@pytest.mark.parametrize(
    ("told", "labels"),
    [
        (None, ["w"]),
        (report(kernel("_scale", "w"), error="run() raised", error_kind="run"), ["w"]),
        (report(kernel("_scale", "smoke")), ["elsewhere"]),
        (report(*[kernel(f"_{number}", "w") for number in range(MOST_KERNELS)]), ["w"]),
    ],
)
def test_a_report_that_does_not_tell_all_accuses_nobody(told: CompileReport | None, labels: list[str]) -> None:
    launched = launched_when_compiled(told, labels)
    assert launched == {}
    as_compiled({"_anything": 1}, launched, labels[0])


def test_what_was_not_launched_at_a_workload_when_it_was_compiled_may_not_run_there() -> None:
    launched = {"w": frozenset({"_scale", "_once"}), "v": frozenset({"_other"})}
    as_compiled({"_scale": 9, GLUE: 1}, launched, "w")
    as_compiled(None, launched, "w")
    with pytest.raises(CandidateFault, match="launches _other on w, which it did not launch there") as caught:
        as_compiled({"_scale": 1, "_other": 1}, launched, "w")
    assert caught.value.violations[0].check == "runtime.kernels"


@pytest.mark.parametrize("name", [NVJET, MUL])
def test_a_librarys_kernel_is_nobodys_own_whatever_the_source_defines(name: str) -> None:
    decoy = HONEST + f"\n\n@triton.jit\ndef {name}(x):\n    tl.store(x, 0)\n"
    told = report(kernel("_scale", "w"), kernel(name, "w"))
    assert own_kernels(decoy, None) == own_kernels(decoy, told, launched_when_compiled(told, ["w"])) == {"_scale"}
    with pytest.raises(CandidateFault, match=r"a kernel of (PyTorch|a library for matrix products)"):
        own_launches({"_scale": 1, name: 15}, own_kernels(decoy, told), "w")
    (violation,) = borrowed_names(told)
    assert (violation.check, violation.line) == ("compiled.kernel_names", 7)
    assert "give it another name" in violation.message


@pytest.mark.parametrize(
    "name",
    [
        *("_gemm", "gemm_kernel", "hopper_gemm", "_flash_attention", "_Z_order", "_zero", "_zn2", "_ZNORM", "cumsum"),
        *("custom", "_axpby_bmm", "triton_mm", "fused", "cuda_sum", "_nvjet", "volta_gemm_32", "sm90_gemm_128x128"),
    ],
)
def test_a_word_of_the_trade_is_no_librarys_name(name: str) -> None:
    assert not is_borrowed(name)


@pytest.mark.parametrize(
    "name",
    [
        *(NVJET, MUL, FILL, COPY, "_ZN7cutlass7Kernel2I4Op1EEvT_", "_Z10vector_fftILj16EEvPf", "_ZNSt4lessIvE"),
        *("sm90_xmma_gemm_bf16bf16_bf16f32_f32_nt", "ampere_sgemm_128x64_tn", "cutlass_80_tensorop_s1688gemm"),
        *("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn", "cudnn_generated_fort_native_sdpa", "ncclDevKernel_SendRecv"),
        *("triton_poi_fused_add_0", "fmha_cutlassF_f16_aligned_64x64_rf_sm80", "cutlass::Kernel2"),
    ],
)
def test_names_of_libraries(name: str) -> None:
    assert is_borrowed(name)


def test_own_kernels_and_glue_may_run() -> None:
    assert own_launches({"_scale": 2, FILL: 1, COPY: 3, COPY_FP8: 1}, frozenset({"_scale"}), "w") == {
        "_scale": 2,
        GLUE: 5,
    }


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("nvjet_hsh_128x128_64x4_2x1_v_bz_TNT", "a library for matrix products"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_nt_n_tilesize64x64x64", "a library for matrix products"),
        ("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_10MulFunctorIfEE", "PyTorch"),
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>", "PyTorch"),
        ("_ZN2at6native22index_copy_kernel_implILi4EEEvRNS_14TensorIteratorE", "PyTorch"),
        ("at6native_copy_kernel", "PyTorch"),
        ("secret_0b1101", "none of the @triton.jit functions which it launched when it was compiled"),
    ],
)
def test_any_other_kernel_is_a_violation_that_repeats_no_name_of_the_candidates(name: str, owner: str) -> None:
    with pytest.raises(CandidateFault) as caught:
        own_launches({"_scale": 1, name: 1}, frozenset({"_scale"}), "w")
    (violation,) = caught.value.violations
    assert violation.check == "runtime.kernels"
    assert owner in violation.message
    assert name not in violation.message


@pytest.mark.parametrize("name", CASTS)
def test_a_cast_is_no_copy(name: str) -> None:
    with pytest.raises(CandidateFault, match="a kernel of PyTorch"):
        own_launches({"_scale": 1, CASTS[name]: 1}, frozenset({"_scale"}), "w")


def test_the_profiler_must_see_what_the_capture_saw() -> None:
    same_launches({"a": 2, GLUE: 1}, {"a": 2}, "w")
    same_launches(None, {"a": 1}, "w")
    with pytest.raises(CandidateFault, match="a x1 on w by the profiler, and a x2, b x1 when"):
        same_launches({"a": 2, "b": 1}, {"a": 1}, "w")


@pytest.mark.parametrize(
    "payload",
    [b"", b"[]", b'{"kernels": [], "foreign": ""}', b'{"kernels": {"a": "x"}, "foreign": ""}', b'{"kernels": null}'],
)
def test_an_answer_out_of_protocol_is_the_candidates_fault(payload: bytes) -> None:
    with pytest.raises(CandidateFault, match="out of protocol"):
        Observed.read(payload)


def test_an_answer_is_read() -> None:
    told = {"kernels": {"_scale": 2}, "foreign": "mul", "peak_bytes": 8, "copied_bytes": 4}
    assert Observed.read(json.dumps(told).encode()) == Observed({"_scale": 2}, "mul", 8, 4)


def test_a_kernels_name_keeps_its_template_and_loses_its_parameters() -> None:
    template = (
        "void vectorized_elementwise_kernel<8, float16_copy_kernel_cuda(TensorIteratorBase &)::"
        "[lambda(float) (instance 1)], std::array<char *, 2>>"
    )
    text = (
        f'"ID","Kernel Name","a__b"\n"0","{template}(int, T2)","1"\n"1","{FILL}","1"\n"2","_scale(float*, int)","1"\n'
    )
    assert [launch.name for launch in read_launches(text)] == [template, FILL, "_scale"]
    assert [launch.function for launch in read_launches(text)] == ["vectorized_elementwise_kernel", FILL, "_scale"]


def test_libraries_of_triton_and_of_python_may_be_loaded() -> None:
    mapped = [
        f"/scratch/triton/AB/__triton_launcher{EXTENSION_SUFFIXES[0]}",
        f"/scratch/triton/CD/cuda_utils{EXTENSION_SUFFIXES[0]}",
        "/usr/lib/libcuda.so.580.159",
        "/usr/lib/python3/lib-dynload/_json.so",
    ]
    assert len(libraries_allowed(mapped, "/scratch")) == 4


def test_code_in_no_file_is_listed_under_no_name_of_its_own() -> None:
    assert libraries_allowed(["/memfd:secret_0b1101", "/memfd:/.driver"], "/scratch") == {NO_FILE}


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/usr/lib/libcublasLt.so.13", "libcublasLt.so.13"),
        ("/opt/lib/libcudnn_graph.so.9", "libcudnn_graph.so.9"),
        ("/scratch/fast.so", "a library of its own making"),
        ("/scratch/triton/AB/fast.so", "a library of its own making"),
        ("/scratch/cuda_utils.so", "a library of its own making"),
        ("/scratch/triton/cuda_utils.so", "a library of its own making"),
        ("/scratch/triton/AB/cuda_utils.0b1101.so", "a library of its own making"),
        ("/scratch/weights.bin", "a library of its own making"),
    ],
)
def test_libraries_that_compute_may_not(path: str, told: str) -> None:
    with pytest.raises(CandidateFault, match=told) as caught:
        libraries_allowed([path], "/scratch")
    assert caught.value.violations[0].check == "runtime.libraries"
    assert "fast" not in str(caught.value)


def test_mapped_libraries_are_read_from_outside(tmp_path: Path) -> None:
    before = libraries_of(os.getpid())
    assert before is not None and any("torch" in path for path in before)
    code, data = tmp_path / "weights of its own.bin", tmp_path / "libdata.so"
    for path in (code, data):
        path.write_bytes(b"\0" * 4096)
    run = mmap.PROT_READ | mmap.PROT_EXEC
    with (
        code.open("rb") as one,
        data.open("rb") as other,
        mmap.mmap(one.fileno(), 0, mmap.MAP_PRIVATE, run),
        mmap.mmap(other.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ),
    ):
        now = libraries_of(os.getpid())
    assert now is not None and now - before == {str(code)}, "what can run counts, whatever its name"
    assert libraries_of(2**22 + 1) is None
