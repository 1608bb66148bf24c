"""What is counted of candidates whose work is known, and why others have no modelled latency. One process for all."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from d2k_agent.contract.modelled import ModelledLatency, ModelledLaunch, ModelledWorkload
from d2k_agent.contract.wire import from_data

pytest.importorskip("triton")

ROOT = Path(__file__).parents[3]
PRODUCT_FLOPS = 2.0 * 1024**3


@pytest.fixture(scope="module")
def answers() -> dict[str, tuple[ModelledWorkload, int]]:
    """Each case's one workload, and the most MiB that its process held."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("probe.py"))],
        env={"TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT), "HOME": str(ROOT), "OMP_NUM_THREADS": "1"},
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    peaks = {name: answer.pop("peak_mib") for name, answer in told.items()}
    return {name: (from_data(ModelledLatency, answer).workloads[0], peaks[name]) for name, answer in told.items()}


Answers = dict[str, tuple[ModelledWorkload, int]]


def only(answers: Answers, name: str) -> ModelledLaunch:
    """The one launch of a case that is modelled."""
    workload, _ = answers[name]
    assert workload.ms is not None, workload.why_not
    (launch,) = workload.launches
    assert workload.ms == pytest.approx((launch.ms or 0) * launch.times)
    return launch


def test_a_product_is_counted_whole_from_a_sample_of_its_programs_and_trips(answers: Answers) -> None:
    launch = only(answers, "product")
    assert (launch.sampled, launch.programs) == (6, 64)
    assert launch.product_flops == {"fp16": PRODUCT_FLOPS}
    assert launch.loaded_bytes == 64 * 1024 * (128 + 128) * 2, "every trip of every program, skipped ones included"
    assert launch.stored_bytes == 1024 * 1024 * 2
    assert launch.compulsory_bytes == 3 * 1024 * 1024 * 2, "pointers that loops advance stay in their tensors"
    assert launch.notes == () and launch.spread == 0


def test_an_argument_that_hides_its_divisibility_is_told_and_costs(answers: Answers) -> None:
    plain, odd = only(answers, "product"), only(answers, "odd")
    assert odd.product_flops == plain.product_flops
    assert "no multiple of 16" in odd.notes[0] and (odd.ms or 0) > 1.5 * (plain.ms or 0)


def test_persistent_programs_with_descriptors_are_sampled_across_their_loops(answers: Answers) -> None:
    launch = only(answers, "persistent")
    assert (launch.sampled, launch.programs) == (22, 132), "more than usual: half of the programs have no tile"
    assert launch.product_flops["fp16"] == pytest.approx(PRODUCT_FLOPS, rel=0.1)
    assert launch.loaded_bytes == pytest.approx(64 * 1024 * (128 + 128) * 2, rel=0.1)


@pytest.mark.parametrize("effect", ["stored", "added", "loaded"])
def test_what_lies_wholly_behind_a_tensor_is_no_access(answers: Answers, effect: str) -> None:
    launch = only(answers, f"{effect} behind")
    inside = 4 * 16 * 64 * 2
    assert launch.loaded_bytes == inside
    assert launch.stored_bytes == (inside if effect == "loaded" else 0) and launch.atomics == 0
    assert launch.compulsory_bytes == launch.moved_bytes == launch.loaded_bytes + launch.stored_bytes


def test_a_loop_whose_branches_rest_on_what_it_carries_is_followed_in_full(answers: Answers) -> None:
    assert only(answers, "flattened").stored_bytes == 64 * 40 * 4


def test_what_a_loop_carries_is_real_where_all_its_trips_were_followed(answers: Answers) -> None:
    assert only(answers, "carried").loaded_bytes == 64 * 4 * 256 * 4


def test_the_last_program_is_cut_by_its_mask(answers: Answers) -> None:
    launch = only(answers, "scaled")
    assert launch.loaded_bytes == launch.stored_bytes == 1_000_003 * 4


def test_tensors_beyond_all_memory_take_none(answers: Answers) -> None:
    launch = only(answers, "huge")
    assert launch.loaded_bytes == launch.stored_bytes == 4e10 and launch.bound == "memory"
    assert answers["huge"][1] < 1500


def test_integers_are_real_and_bound_loops(answers: Answers) -> None:
    assert only(answers, "ragged").loaded_bytes == 64 * (4 + 3 * 256 * 4)


def test_integers_that_rest_on_memory_are_counted_and_places_are_not(answers: Answers) -> None:
    launch = only(answers, "ranked by one warp")
    assert launch.integers == 64 * 20 * (3 * 256), "a reduction, a comparison and a choice a round"
    assert launch.arithmetic == 0 and launch.bound == "latency"


@pytest.mark.parametrize("number", [1, 2, 3, 8])
def test_a_branch_on_the_number_of_the_trip_is_counted_about_as_often_as_it_is_taken(
    answers: Answers, number: int
) -> None:
    launch = only(answers, f"every {number}")
    assert launch.loaded_bytes == pytest.approx(132 * -(-400 // number) * 256 * 4, rel=0.25)


def test_loads_that_rest_on_each_other_come_one_after_the_other(answers: Answers) -> None:
    launch = only(answers, "chased")
    assert launch.bound == "latency"
    assert (launch.ms or 0) == pytest.approx(100 * 479 / 1.83e6, rel=0.05)


def test_values_that_cross_warps_take_longer(answers: Answers) -> None:
    assert (only(answers, "ranked").ms or 0) > (only(answers, "ranked by one warp").ms or 0)


def test_where_a_tuner_chooses_the_model_does(answers: Answers) -> None:
    assert only(answers, "tuned").grid == (16, 8), "the larger tile, which moves fewer bytes"
    cut = only(answers, "tuned among many")
    assert (cut.grid, cut.notes) == ((32, 8), ("only the first 16 of its tuner's configurations were tried",))


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("computed", "the bound of a loop of the kernel depends on contents that are not there (a kernel before wrote"),
        ("carried far", "the bound of a loop of the kernel depends on contents that are not there (only a sample of a"),
        ("queue", "a branch of the kernel depends on contents that are not there (what an atomic operation returns"),
        ("assembled", "it cannot be interpreted: inline_asm"),
        ("endless", "there was no time left of 1 s of the processor's for all workloads (solution.py line "),
        ("raising", "run() raised ValueError (solution.py line 7): no such shape"),
        ("failing model", "the model itself failed: ZeroDivisionError: division by zero"),
        ("no inputs", "its arguments cannot be made without a GPU: 'no such key'"),
        ("read", "run() reads a value on the host that is not there"),
        ("torch", "run() computes with PyTorch (mul), which is not modelled"),
        ("memory", "it needs more than 4 GiB of real memory"),
        ("nothing", "run() launched no Triton kernel"),
        ("broken", "solution.py must define run(...)"),
    ],
)
def test_what_cannot_be_modelled_says_why(answers: Answers, name: str, why: str) -> None:
    workload, _ = answers[name]
    assert workload.ms is None and workload.why_not is not None
    assert why in workload.why_not
