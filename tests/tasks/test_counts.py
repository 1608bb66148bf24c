"""The counts in hidden/sol.py against values reckoned by hand, and against what PyTorch counts in a reference."""

from __future__ import annotations

import json
import runpy
from typing import Any

import pytest

from d2k_agent.catalog import Task, counts_of, find_task, list_tasks, speed_of_light

torch = pytest.importorskip("torch")
flop_counter = pytest.importorskip("torch.utils.flop_counter")

from d2k_agent.evaluator.ranks.choosing import load_task  # noqa: E402 - torch may be missing
from d2k_agent.evaluator.ranks.task import parts, per_rank  # noqa: E402

TASKS = [task for task in list_tasks() if speed_of_light(task) is not None]
RANKED = [task for task in TASKS if "ranks" in json.loads((task.folder / "config.json").read_text())]
COUNTED = {"muon", "moe_grouped_topk", "fused_linear_ce", "ep_dispatch_fp8"}


def counts(task: Task, workload: dict[str, Any]) -> Any:
    sol = speed_of_light(task)
    assert sol is not None
    return sol.counts(workload)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.slug)
def test_the_label_of_a_small_workload_says_its_sizes(task: Task) -> None:
    hidden = json.loads((task.folder / "hidden" / "workloads.json").read_text())
    workloads = [*hidden["smoke"], *(variation["workload"] for variation in hidden["variations"])]
    for workload in workloads:
        sizes = {part[1:] for part in workload["label"].split("_") if part[1:].isdigit()}
        assert sizes <= {str(size) for size in workload.values()}, workload["label"]


def test_the_tasks_that_ship_have_counts() -> None:
    assert {task.slug for task in TASKS} >= COUNTED


def test_bytes_over_links_are_those_that_the_evaluator_asks_for() -> None:
    task = find_task("ep_dispatch_fp8")
    required = runpy.run_path(str(task.folder / "hidden" / "check.py"))["link_bytes"]
    for ranks in (2, 4, 8):
        found = counts_of(task, {"ranks": ranks, "gpus": list(range(ranks))})
        for workload in task.workloads:
            sent = found[workload.label]
            assert sent.best.link_bytes == pytest.approx(required({**workload.params, "ranks": ranks}))
            assert sent.reference.link_bytes > sent.best.link_bytes
    assert counts_of(task) == counts_of(task, {"ranks": 2, "gpus": [0, 1]})


def test_muon_by_hand() -> None:
    found = counts(find_task("muon"), {"batch_size": 1, "M": 2, "N": 3})
    # A step: X Xt is 2 x 2 x 3 products, its square 2 x 2 x 2, the last product 2 x 2 x 3; five steps, two operations.
    assert found.reference.product_flops == {"fp16": 5 * 2 * (12 + 8 + 12)}
    # Half of two Gram matrices, two products with X, half of 14 squares.
    assert found.best.product_flops == {"fp16": 12 * 2 + 2 * 24 + 14 * 8}
    assert found.reference.memory_bytes == found.best.memory_bytes == 2 * 6 * 2


def test_fused_linear_ce_by_hand() -> None:
    found = counts(find_task("fused_linear_ce"), {"N": 34, "H": 5, "V": 7})
    product = 2 * 34 * 5 * 7
    assert found.reference.product_flops == {"bf16": 3 * product}
    # Of 34 tokens Of 34 tokens two are ignored.
    assert found.best.product_flops == {"bf16": product + 2 * 2 * 32 * 5 * 7}
    # x, w, targets, the sum; then the sum again, dx, lse, loss.
    assert found.best.memory_bytes == 2 * 34 * 5 + 2 * 35 + 4 * 34 + 4 * 35 + 4 * 35 + 2 * 34 * 5 + 4 * 34 + 4


def test_moe_grouped_topk_by_hand() -> None:
    found = counts(find_task("moe_grouped_topk"), {"tokens": 10, "experts": 6, "topk": 2, "num_valid": 7})
    beside = 4 * 6 + 4 + 2 * 4 * 20 + 2 * 4 * 6
    assert found.reference.memory_bytes == 4 * 60 + beside
    assert found.best.memory_bytes == 4 * 42 + beside
    assert found.reference.flops == found.best.flops == 0


def test_ep_dispatch_fp8_by_hand() -> None:
    found = counts(find_task("ep_dispatch_fp8"), {"tokens": 32, "hidden": 256, "experts": 8, "topk": 3})
    # 192 choices on two ranks and four experts a rank: 700 rows, rounded up to 768; a row is 256 bytes and two scales.
    beside = 4 * 768 + 4 * 192 + 4 * 5 + 4 * 4
    assert found.reference.memory_bytes == 2 * 32 * 256 + 4 * 96 + 768 * 264 + beside
    # Of 96 choices two are dropped; half of those of both ranks come here.
    assert found.best.memory_bytes == 2 * 32 * 256 + 4 * 96 + 94 * 264 + beside
    # One token of 14 has no expert of the other rank: 4/8 times 3/7 times 2/6. What is sent has a byte a scale.
    assert found.reference.link_bytes == 2 * 32 * 256 + 4 * 96
    assert found.best.link_bytes == pytest.approx(32 * 13 / 14 * 258)
    assert found.reference.flops == found.best.flops == 0


@pytest.mark.parametrize("task", RANKED, ids=lambda task: task.slug)
def test_the_reference_does_what_is_counted_on_each_rank(task: Task) -> None:
    loaded = load_task(task.bundle(), None)
    for workload in loaded.smoke:
        arguments = loaded.arguments(workload, "5e" * 32)
        outputs = parts(loaded.expected(arguments).outputs, loaded.ranks)
        for given, returned in zip(per_rank(arguments, loaded.ranks)[1], outputs, strict=True):
            tensors = [value for value in (*given, *returned) if isinstance(value, torch.Tensor)]
            assert counts(task, workload).reference.memory_bytes == sum(tensor.nbytes for tensor in tensors)


@pytest.mark.parametrize("task", [task for task in TASKS if task not in RANKED], ids=lambda task: task.slug)
def test_the_reference_does_what_is_counted(task: Task) -> None:
    hidden = json.loads((task.folder / "hidden" / "workloads.json").read_text())
    changed = [item["argument"] for item in hidden["mutated_inputs"]]
    run = runpy.run_path(str(task.folder / "reference.py"))["run"]
    names = run.__code__.co_varnames
    get_inputs = runpy.run_path(str(task.folder / "get_inputs.py"))["get_inputs"]
    for workload in hidden["smoke"]:
        arguments = get_inputs({**workload, "device": "cpu", "seed": 1})
        with flop_counter.FlopCounterMode(display=False, custom_mapping={torch.ops.aten.addmm_: _addmm}) as counter:
            returned = run(*arguments)
        outputs = returned if isinstance(returned, tuple) else (returned,)
        tensors = [value for value in (*arguments, *outputs) if isinstance(value, torch.Tensor)]
        again = [arguments[names.index(name)] for name in changed]
        found = counts(task, workload)
        assert found.reference.flops == counter.get_total_flops()
        assert found.reference.memory_bytes == sum(tensor.nbytes for tensor in (*tensors, *again))


def _addmm(_: Any, left: Any, right: Any, **__: Any) -> int:
    """Operations of the product in place, which PyTorch's counter leaves out."""
    return int(2 * left[0] * left[1] * right[1])
