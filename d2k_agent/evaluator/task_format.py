"""What config.json and hidden/workloads.json must hold so that the evaluator can judge by them.

Checks only what the evaluator uses: `tasks check` knows the whole format.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from d2k_agent.evaluator.faults import TaskFault
from d2k_agent.evaluator.gates import GATES

_PARAMETERS = {"allclose_share": ("atol", "rtol")}
"""The numbers that a kind of gate needs; a limit where nothing else is said."""
_PRECISION = frozenset({"operands", "accumulators", "output_only"})


def entries(file: str, data: dict[str, Any], name: str, kind: type, least: int = 0) -> list[Any]:
    """The list called `name`, each item of `kind`; one that is left out is empty. Raises TaskFault naming the file."""
    found = data.get(name, [])
    if not isinstance(found, list) or not all(isinstance(item, kind) for item in found):
        raise TaskFault(f"{file}: {name} must be a list, each item of it a {kind.__name__}")
    if len(found) < least:
        raise TaskFault(f"{file}: {name} is missing or has fewer than {least} items")
    return found


def check_gates(file: str, gates: Sequence[dict[str, Any]], outputs: Sequence[str]) -> None:
    """Raises TaskFault for a gate of no known kind, without its numbers, or on an output that does not exist."""
    for gate in gates:
        kind = gate.get("gate")
        if not isinstance(kind, str) or kind not in GATES:
            raise TaskFault(f"{file}: there is no gate {kind!r}; gates are {', '.join(GATES)}")
        if gate.get("output", outputs[0]) not in outputs:
            raise TaskFault(f"{file}: gate {kind} names output {gate['output']!r}; outputs are {', '.join(outputs)}")
        for name in _PARAMETERS.get(kind, ("limit",)):
            if not isinstance(gate.get(name), (int, float)):
                raise TaskFault(f"{file}: gate {kind} needs a number called {name}")


def check_variations(file: str, variations: Sequence[dict[str, Any]], functions: dict[str, Any]) -> None:
    """Raises TaskFault for a variation without name or workload, or whose function check.py does not define."""
    for variation in variations:
        if not isinstance(variation.get("name"), str) or not isinstance(variation.get("workload"), dict):
            raise TaskFault(f"{file}: a variation needs a name and a workload, which {variation} lacks")
        if not isinstance(variation.get("vary"), str) or not callable(functions.get(variation["vary"])):
            raise TaskFault(
                f"{file}: variation {variation['name']} asks for {variation.get('vary')!r}, "
                "which hidden/check.py does not define"
            )

        devices = variation.get("devices", [])
        if not isinstance(devices, list):
            raise TaskFault(f"{file}: devices of variation {variation['name']} must be a list of names of devices")


def check_precision(file: str, data: dict[str, Any]) -> None:
    """Raises TaskFault for a `precision` rule that does not say which types products and conversions may have."""
    rule = data.get("precision", {})
    if not isinstance(rule, dict) or set(rule) - _PRECISION:
        raise TaskFault(f"{file}: precision must be an object with {', '.join(sorted(_PRECISION))}, and nothing else")
    for name in rule:
        entries(f"{file}: precision", rule, name, str)
    if ("operands" in rule) != ("accumulators" in rule):
        raise TaskFault(f"{file}: precision needs both operands and accumulators, or neither")


def check_labels(file: str, workloads: Sequence[dict[str, Any]]) -> None:
    """Raises TaskFault for a workload without a label, and for a label that two workloads share."""
    for workload in workloads:
        if not isinstance(workload.get("label"), str):
            raise TaskFault(f"{file}: a workload needs a label, which {workload} lacks")
    for label, count in Counter(workload["label"] for workload in workloads).items():
        if count > 1:
            raise TaskFault(f"{file}: label {label} is used {count} times in config.json and hidden/workloads.json")
