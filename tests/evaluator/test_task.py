"""A broken task is a TaskFault that names the file, never an exception that ends the evaluator."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch

from d2k_agent.catalog.reading import read_object
from d2k_agent.catalog.resources import schema_dir
from d2k_agent.contract import TaskBundle
from d2k_agent.evaluator.faults import TaskFault
from d2k_agent.evaluator.gates import GATES
from d2k_agent.evaluator.rules.policy import policy_of
from d2k_agent.evaluator.task import LoadedTask, derive
from tests.evaluator.scaling import task

SEED = derive("0" * 64, "test")


def broken(files: dict[str, str] | None = None, **hidden: Any) -> TaskBundle:
    """The scaling task with files replaced, and keys of hidden/workloads.json replaced (left out where None)."""
    whole = task()
    data = {**json.loads(whole.hidden["workloads.json"]), **hidden}
    data = {name: value for name, value in data.items() if value is not None}
    replaced = {"workloads.json": json.dumps(data), **(files or {})}
    public = {name: replaced.get(name, text) for name, text in whole.public.items()}
    return TaskBundle(whole.slug, public, {name: replaced.get(name, text) for name, text in whole.hidden.items()})


@pytest.mark.parametrize(
    ("bundle", "said"),
    [
        (broken({"rules.toml": "[foo]\nallow = []\n"}), "rules.toml: [foo] is unknown"),
        (broken({"rules.toml": "[torch]\nallow = 3\n"}), "hidden/rules.toml"),
        (broken({"workloads.json": "[]"}), "workloads.json: an object"),
        (broken({"config.json": '{"workloads": 3}'}), "config.json: workloads must be a list"),
        (broken({"config.json": '{"workloads": [{}]}'}), "needs a label"),
        (broken({"config.json": '{"workloads": [{"label": "smoke_n1000"}]}'}), "smoke_n1000 is used 2 times"),
        (broken(smoke=None), "hidden/workloads.json: smoke is missing"),
        (broken(gates=[]), "hidden/workloads.json: gates is missing"),
        (broken(gates=[{"gate": "nope", "limit": 1}]), "no gate 'nope'"),
        (broken(gates=[{"gate": "rel_norm"}]), "needs a number called limit"),
        (broken(gates=[{"gate": "rel_norm", "limit": 1, "output": "z"}]), "names output 'z'"),
        (
            broken(gates=[{"gate": "set", "margin": 0.1}]),
            "gate set needs scores, a function that hidden/check.py defines",
        ),
        (broken(gates=[{"gate": "rel_norm", "limit": 1, "rows": "gone"}]), "gate rel_norm needs rows, a function"),
        (broken(gates=[{"gate": "rel_norm", "limit": 1, "margin": 1}]), "gate rel_norm takes no margin; it takes"),
        (broken(gates=[{"gate": "rel_norm", "limit": 1, "change": True}]), "run() changes no argument y"),
        (broken(gates=[{"gate": "counter", "counts": "ids"}]), "gate counter names output 'ids'"),
        (broken(mutated_inputs=[{"argument": "z", "effect": "adds"}]), "mutated_inputs name 'z'"),
        (broken(mutated_inputs=[{"argument": "x", "effect": "halves"}]), "effects are adds, writes"),
        (broken(variations=[{"name": "a", "vary": "gone", "workload": {"label": "b"}}]), "asks for 'gone'"),
        (broken(variations=[{"name": "a", "vary": "zeros"}]), "needs a name and a workload"),
        (broken(variations=[{"name": "a", "vary": "zeros", "workload": {}, "devices": 5}]), "devices of variation a"),
        (broken(gates=[{"gate": ["rel_norm"], "limit": 1}]), "no gate ['rel_norm']"),
        (broken(precision=5), "hidden/workloads.json: precision must be an object"),
        (broken(precision={"operand": ["f16"]}), "precision must be an object"),
        (broken(precision={"operands": ["f16"]}), "needs both operands and accumulators"),
        (broken(precision={"output_only": "f32->bf16"}), "precision: output_only must be a list"),
        (broken(timing={"mode": ["batch"]}), "timing must be"),
        (broken(repeat_calls=0), "repeat_calls"),
        (broken({"reference.py": "raise SystemExit(3)\n"}), "reference.py raised SystemExit: 3 (line 1)"),
        (broken({"reference.py": "{}['x']\n"}), "reference.py raised KeyError"),
        (broken({"get_inputs.py": "x = 1\n"}), "get_inputs.py defines no get_inputs"),
    ],
)
def test_a_broken_file_is_a_fault_of_the_task_when_it_is_loaded(bundle: TaskBundle, said: str) -> None:
    with pytest.raises(TaskFault) as fault:
        LoadedTask(bundle)
    assert said in str(fault.value)


NUMBER = "must be a finite number of at least 0"
SHARE = "must be a number from 0 to less than 1"
EXTENTS = "must be a list of whole numbers of at least 0"


@pytest.mark.parametrize(
    ("gate", "key", "value", "must"),
    [
        *(
            ({"gate": "rel_norm"}, "limit", value, NUMBER)
            for value in (None, True, "a", -1, math.nan, math.inf, 10**400)
        ),
        *(({"gate": "exact"}, "limit", value, NUMBER) for value in (None, "a")),
        ({"gate": "close", "rtol": 0.0}, "atol", math.nan, NUMBER),
        *(({"gate": "close", "atol": 1.0, "rtol": 0.0}, "share", value, SHARE) for value in (1.0, "a", -0.5, None)),
        *(({"gate": "slice", "limit": 0.1}, "block", value, EXTENTS) for value in ("ab", [], [-1], [1.0], [True], 3)),
        ({"gate": "slice", "limit": 0.1}, "floor", "x", NUMBER),
        ({"gate": "rel_norm", "limit": 0.1}, "change", 1, "must be true or false"),
    ],
)
def test_an_option_that_no_gate_can_use_is_refused(gate: dict[str, Any], key: str, value: object, must: str) -> None:
    with pytest.raises(TaskFault) as fault:
        LoadedTask(broken(gates=[{**gate, key: value}]))
    assert f"hidden/workloads.json: {key} of gate {gate['gate']} {must}" in str(fault.value)


@pytest.mark.parametrize(
    ("bundle", "said"),
    [
        (broken(outputs=["y", "z"]), "returned 1 outputs, hidden/workloads.json names 2"),
        (broken({"reference.py": "def run(x, f):\n    raise SystemExit(1)\n"}), "reference.py raised SystemExit"),
        (broken({"reference.py": "def run(x, f):\n    return None\n"}), "no tensor for y, but None"),
        (broken({"reference.py": "def run(x, f):\n    return x * float('nan')\n"}), "reference.py gives NaN in y"),
        (
            broken({"reference.py": "def run(x, f):\n    return x.cfloat()\n"}),
            "reference.py: the layout does not carry",
        ),
        (
            broken({"get_inputs.py": "def get_inputs(c):\n    raise KeyError('n')\n"}),
            "get_inputs.py raised KeyError: 'n' (line 2)",
        ),
        (broken({"get_inputs.py": "def get_inputs(c):\n    pass\n"}), "get_inputs.py must return a list"),
        (broken({"get_inputs.py": "def get_inputs(c):\n    return [{1}]\n"}), "get_inputs.py returned {1}"),
        (
            broken(mutated_inputs=[{"argument": "factor", "effect": "adds"}]),
            "get_inputs.py gives no tensor for factor, which run() changes",
        ),
    ],
)
def test_what_a_tasks_code_returns_is_checked(bundle: TaskBundle, said: str) -> None:
    loaded = LoadedTask(bundle)
    with pytest.raises(TaskFault) as fault:
        loaded.expected(loaded.arguments(loaded.smoke[0], SEED))
    assert said in str(fault.value)


def test_a_reference_that_does_not_return_is_a_fault_of_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("d2k_agent.evaluator.task.MOST_REFERENCE_S", 0.2)
    loaded = LoadedTask(broken({"reference.py": "def run(x, f):\n    while True:\n        pass\n"}))
    with pytest.raises(TaskFault, match=r"reference.py did not return within 0.2 s: look for a loop"):
        loaded.expected(loaded.arguments(loaded.smoke[0], SEED))


@pytest.mark.parametrize("code", ["torch.empty(1 << 50)", "bytearray(1 << 60)"])
def test_a_full_memory_is_the_machines_fault(code: str) -> None:
    loaded = LoadedTask(broken({"reference.py": f"import torch\n\n\ndef run(x, f):\n    return {code}\n"}))
    with pytest.raises(MemoryError, match=r"task scaling: reference\.py needs more memory"):
        loaded.expected([torch.ones(1), 2.0])


def test_a_bound_that_is_no_number_is_a_fault_of_the_task() -> None:
    check = task().hidden["check.py"] + "\n\ndef memory_cap_bytes(workload):\n    pass\n"
    loaded = LoadedTask(broken({"check.py": check}))
    with pytest.raises(TaskFault, match="memory_cap_bytes must return a number"):
        loaded.memory_cap_bytes(loaded.smoke[0])


def test_a_whole_task_gives_arguments_and_reference_outputs() -> None:
    loaded = LoadedTask(task())
    x, factor = loaded.arguments(loaded.smoke[0], SEED)
    assert torch.equal(loaded.expected([x, factor]).outputs[0], x * 3.0)
    assert torch.equal(loaded.vary("zeros", [x, factor], SEED)[0], torch.zeros(1000))


def test_the_schemas_that_tasks_check_reads_name_the_gates_and_sections_there_are() -> None:
    schema = {name: read_object(schema_dir() / f"{name}.schema.json") for name in ("workloads", "rules")}
    assert set(schema["workloads"]["$defs"]["gate"]["properties"]["gate"]["enum"]) == set(GATES)
    sections = schema["rules"]["properties"]
    assert policy_of({section: {"allow": ["a"], "deny": ["b"]} for section in sections})
    with pytest.raises(ValueError, match=", ".join(sections)):
        policy_of({"unknown": {}})
