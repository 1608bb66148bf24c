"""What ran for a candidate: which kernels are its own or glue, which libraries it may load, and what is told of it."""

from __future__ import annotations

import json
import mmap
import os
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from d2k_agent.evaluator.evidence import (
    GLUE,
    NO_FILE,
    Observed,
    libraries_allowed,
    own_kernels,
    own_launches,
    same_launches,
)
from d2k_agent.evaluator.faults import CandidateFault
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


def test_kernels_of_a_source_are_its_jit_functions_also_autotuned_ones() -> None:
    tuned = HONEST.replace("@triton.jit", "@triton.autotune(configs=[triton.Config({})], key=['n'])\n@triton.jit")
    assert own_kernels(HONEST, None) == own_kernels(tuned, None) == {"_scale"}


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
        ("secret_0b1101", "none of its @triton.jit functions"),
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
    told = {"kernels": {"_scale": 2}, "foreign": "mul"}
    assert Observed.read(json.dumps(told).encode()) == Observed({"_scale": 2}, "mul")


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
