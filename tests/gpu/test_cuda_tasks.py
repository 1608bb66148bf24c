"""Kernels of fused_linear_ce and moe_grouped_topk judged on a GPU: small shapes, and the late variations at full size.

Nothing is timed, and every variation counts as an early one. What the interpreter cannot run, runs here: the additions
of tensor descriptors.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterator

import pytest

from d2k_agent.catalog import find_task, guidance_dir
from d2k_agent.contract import Limits, TaskBundle, Verdict, VerdictStatus
from d2k_agent.launchers import ProcessLauncher
from tests.evaluator.gpus import evaluator_environment
from tests.evaluator.scaling import job

pytestmark = pytest.mark.gpu

TASKS = ("fused_linear_ce", "moe_grouped_topk")
LIMITS = Limits(gpu_call_s=20.0, compile_s=120.0)


@pytest.fixture(scope="module")
def launcher() -> Iterator[ProcessLauncher]:
    launcher = ProcessLauncher(evaluator_environment())
    yield launcher
    launcher.close()


@functools.cache
def bundle_and_labels(slug: str) -> tuple[TaskBundle, tuple[str, ...]]:
    """The task with its late variations made early, and the names of all that is checked on a GPU."""
    bundle = find_task(slug).bundle()
    hidden = json.loads(bundle.hidden["workloads.json"])
    for variation in hidden["variations"]:
        variation["late"] = False
    bundle = dataclasses.replace(bundle, hidden={**bundle.hidden, "workloads.json": json.dumps(hidden)})
    names = [variation["name"] for variation in hidden["variations"]]
    return bundle, (*(item["label"] for item in hidden["smoke"]), *dict.fromkeys(names))


def judged(launcher: ProcessLauncher, slug: str, source: str) -> Verdict:
    bundle, labels = bundle_and_labels(slug)
    return launcher.launch(job(source, LIMITS, task=bundle, target=None, device="cuda", workloads=labels))


def source_of(slug: str, name: str) -> str:
    return (guidance_dir() / slug / f"{name}.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("slug", TASKS)
@pytest.mark.parametrize("name", ["expert", "baseline"])
def test_every_gate_passes_at_small_and_at_registered_shapes(launcher: ProcessLauncher, slug: str, name: str) -> None:
    verdict = judged(launcher, slug, source_of(slug, name))
    assert verdict.status is VerdictStatus.UNTIMED, verdict.message
    bundle, _ = bundle_and_labels(slug)
    hidden = json.loads(bundle.hidden["workloads.json"])
    wanted = [item["label"] for item in hidden["smoke"]]
    wanted += [item["name"] for item in hidden["variations"] if "cuda" in item.get("devices", ["cuda"])]
    assert [result.label for result in verdict.workloads if not result.registered] == wanted


@pytest.mark.parametrize(
    ("slug", "old", "new", "fails"),
    [
        pytest.param(
            "moe_grouped_topk",
            "live = row < tl.load(num_valid)",
            "live = row < tl.where(tl.num_programs(0) > 8192, 1 << 30, tl.load(num_valid))",
            "topk_ids set",
            id="padding of a registered shape assumed",
        ),
        pytest.param(
            "moe_grouped_topk",
            "_ordered(biased), TAKEN)",
            "tl.where(tl.num_programs(0) > 8192, biased.to(tl.int32, bitcast=True), _ordered(biased)), TAKEN)",
            "topk_ids set",
            id="negative scores upside down at a registered shape",
        ),
        pytest.param(
            "moe_grouped_topk",
            "_count[(triton.cdiv(rows * topk, COUNTED_IDS),)]",
            "_count[(rows * topk // COUNTED_IDS,)]",
            "expert_load counter",
            id="ids of an unfinished block not counted",
        ),
        pytest.param(
            "fused_linear_ce",
            "out.atomic_add([row, column], tile)",
            "out.store([row, column], tile)",
            "dw_acc rel_norm",
            id="accumulator overwritten by the descriptor",
        ),
    ],
)
def test_a_kernel_that_is_wrong_on_a_gpu_alone_fails(
    launcher: ProcessLauncher, slug: str, old: str, new: str, fails: str
) -> None:
    right = source_of(slug, "expert")
    assert right.count(old) == 1
    verdict = judged(launcher, slug, right.replace(old, new))
    assert verdict.status is VerdictStatus.INCORRECT, verdict.message
    failed = [f"{item.output} {item.gate}" for result in verdict.workloads for item in result.checks if not item.passed]
    assert failed == [fails]
