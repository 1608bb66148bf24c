"""Several ranks on a GPU: two on one GPU, which shows all but the links, and on two of one host where there are two."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from d2k_agent.catalog import find_task, guidance_dir  # noqa: E402 - torch may be missing
from d2k_agent.contract import EvaluatorJob, JobKind, Limits, TaskBundle, Verdict, VerdictStatus  # noqa: E402
from d2k_agent.launchers import ProcessLauncher  # noqa: E402
from tests.evaluator.gpus import evaluator_environment  # noqa: E402
from tests.evaluator.ranks import shifting  # noqa: E402

pytestmark = pytest.mark.gpu

SLUG = "ep_dispatch_fp8"
LIMITS = Limits(call_s=30.0, gpu_call_s=30.0, compile_s=180.0)
SMALL = ("smoke_n64", "hidden.zeros")


@pytest.fixture(scope="module")
def one_gpu() -> Iterator[ProcessLauncher]:
    launcher = ProcessLauncher(evaluator_environment())
    yield launcher
    launcher.close()


@pytest.fixture(scope="module")
def two_gpus() -> Iterator[ProcessLauncher]:
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU is here; two of one host are needed")
    launcher = ProcessLauncher(evaluator_environment(2))
    yield launcher
    launcher.close()


def judged(launcher: ProcessLauncher, bundle: TaskBundle, source: str, *labels: str, rules: bool = True) -> Verdict:
    job = EvaluatorJob(
        JobKind.EVALUATE,
        bundle,
        source,
        os.urandom(32).hex(),
        None,
        device="cuda",
        workloads=labels,
        limits=LIMITS,
        static_rules=rules,
    )
    return launcher.launch(job)


def source_of(name: str) -> str:
    return Path(guidance_dir(), SLUG, f"{name}.py").read_text(encoding="utf-8")


def small_labels(bundle: TaskBundle) -> list[str]:
    hidden = json.loads(bundle.hidden["workloads.json"])
    names = [item["name"] for item in hidden["variations"] if not item.get("late")]
    return [*(item["label"] for item in hidden["smoke"]), *dict.fromkeys(names)]


def test_two_ranks_on_one_gpu_exchange_data(one_gpu: ProcessLauncher) -> None:
    verdict = judged(one_gpu, shifting.task(), shifting.HONEST, *SMALL)
    assert verdict.status is VerdictStatus.UNTIMED, verdict.message
    assert verdict.environment.device_name.endswith(", 2 ranks on 1 GPU")
    assert verdict.environment.details["ranks"] == 2
    assert len(set(verdict.environment.details["gpus"])) == 1


@pytest.mark.parametrize("name", ["SILENT", "FLAG_FIRST", "NEVER_WAITS", "UNGUARDED"])
def test_data_that_did_not_come_are_missed(one_gpu: ProcessLauncher, name: str) -> None:
    verdict = judged(one_gpu, shifting.task(), getattr(shifting, name), *SMALL)
    assert verdict.status is VerdictStatus.INCORRECT, verdict.message
    assert "rank " in verdict.message


def test_a_rank_that_waits_for_ever_is_named_and_the_gpu_is_free_again(one_gpu: ProcessLauncher) -> None:
    # The first call on a GPU is the one that compiles: it has the longest limit, and the other rank's answer ends it.
    verdict = judged(one_gpu, shifting.task(), shifting.RANK_0_SENDS_NOTHING, *SMALL)
    assert verdict.status is VerdictStatus.TIMED_OUT, verdict.message
    assert "rank 1 did not finish" in verdict.message
    assert judged(one_gpu, shifting.task(), shifting.HONEST, *SMALL).status is VerdictStatus.UNTIMED


def test_a_rank_that_ends_ends_the_job(one_gpu: ProcessLauncher) -> None:
    verdict = judged(one_gpu, shifting.task(), shifting.RANK_1_ENDS, *SMALL, rules=False)
    assert verdict.status is VerdictStatus.ENDED_EARLY, verdict.message
    assert verdict.message.startswith("rank 1: ")


def test_a_workspace_is_as_large_as_it_is(one_gpu: ProcessLauncher) -> None:
    verdict = judged(one_gpu, shifting.task(), shifting.OVERRUN, *SMALL, rules=False)
    failed = [f"{item.output} {item.gate}" for result in verdict.workloads for item in result.checks if not item.passed]
    assert failed[0] == "* workspace", verdict.message


@pytest.mark.parametrize("name", ["expert", "baseline"])
def test_dispatch_is_right_on_one_gpu(one_gpu: ProcessLauncher, name: str) -> None:
    bundle = find_task(SLUG).bundle()
    verdict = judged(one_gpu, bundle, source_of(name), *small_labels(bundle))
    assert verdict.status is VerdictStatus.UNTIMED, verdict.message


@pytest.mark.parametrize("name", ["expert", "baseline"])
def test_dispatch_is_right_and_timed_on_two_gpus_and_its_bytes_are_counted(
    two_gpus: ProcessLauncher, name: str
) -> None:
    bundle = find_task(SLUG).bundle()
    verdict = judged(two_gpus, bundle, source_of(name), "dsv3_t4096")
    assert verdict.status is VerdictStatus.PASSED, verdict.message
    assert len(set(verdict.environment.details["gpus"])) == 2
    (result,) = (result for result in verdict.workloads if result.registered)
    assert result.measurement is not None
    assert result.measurement.link_bytes is not None
    compulsory = 4096 * 0.9963 * (7168 + 4 * 56)
    assert len(result.measurement.link_bytes) == 2
    assert min(result.measurement.link_bytes) >= 0.9 * compulsory


def test_work_without_traffic_is_a_violation(two_gpus: ProcessLauncher) -> None:
    """Each rank draws the same numbers here, so a rank knows what the other would send; they meet, and send no data."""
    bundle = shifting.task()
    alike = bundle.public["get_inputs.py"].replace('torch.manual_seed(config["seed"])', "torch.manual_seed(1)")
    alike = alike.replace("torch.randn(config", "0.0 * torch.randn(config")
    knowing = TaskBundle("shifting", {**bundle.public, "get_inputs.py": alike}, bundle.hidden)
    guessed = shifting.KERNELS + (
        "def run(x, comm):\n    flag(comm)\n    arrive(comm)\n    take(x, comm)\n    return torch.zeros_like(x)\n"
    )
    verdict = judged(two_gpus, knowing, guessed, "large")
    assert [violation.check for violation in verdict.violations] == ["runtime.links"], verdict.message
