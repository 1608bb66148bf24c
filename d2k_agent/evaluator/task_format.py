"""What config.json and hidden/workloads.json must hold so that the evaluator can judge by them.

Checks only what the evaluator uses: `tasks check` knows the whole format.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from d2k_agent.evaluator.faults import TaskFault
from d2k_agent.evaluator.gates import GATES
from d2k_agent.evaluator.gates.base import NUMBER, SWITCH, Kind

_PRECISION = frozenset({"operands", "accumulators", "output_only"})


def entries(file: str, data: dict[str, Any], name: str, kind: type, least: int = 0) -> list[Any]:
    """The list called `name`, each item of `kind`; one that is left out is empty. Raises TaskFault naming the file."""
    found = data.get(name, [])
    if not isinstance(found, list) or not all(isinstance(item, kind) for item in found):
        raise TaskFault(f"{file}: {name} must be a list, each item of it a {kind.__name__}")
    if len(found) < least:
        raise TaskFault(f"{file}: {name} is missing or has fewer than {least} items")
    return found


def check_gates(
    file: str,
    gates: Sequence[dict[str, Any]],
    outputs: Sequence[str],
    mutated: Sequence[str],
    functions: Mapping[str, Any],
) -> None:
    """Raises TaskFault for a gate of no known kind, with more or less than it needs, or on what does not exist.

    Gates are on outputs and on mutated arguments, all by name; `functions` are those of check.py.
    """
    names = [*outputs, *mutated]
    for gate in gates:
        name = gate.get("gate")
        kind = GATES.get(name) if isinstance(name, str) else None
        if kind is None:
            raise TaskFault(f"{file}: there is no gate {name!r}; gates are {', '.join(GATES)}")
        known = {"gate", "output", *kind.numbers, *kind.optional, *kind.functions, *kind.outputs, *kind.general}
        for unknown in sorted(set(gate) - known):
            raise TaskFault(f"{file}: gate {name} takes no {unknown}; it takes {', '.join(sorted(known))}")
        _check_options(file, gate, kind)
        of = gate.get("output", outputs[0])
        for named in (of, *(gate.get(key) for key in kind.outputs)):
            if named not in names:
                raise TaskFault(f"{file}: gate {name} names output {named!r}; outputs are {', '.join(names)}")
        for key in (*kind.functions, *(key for key in ("rows", "expect") if key in gate)):
            if not callable(functions.get(str(gate.get(key)))):
                raise TaskFault(f"{file}: gate {name} needs {key}, a function that hidden/check.py defines")
        if of not in mutated and (gate.get("change") or name == "counter"):
            raise TaskFault(f"{file}: gate {name} on {of} is about a change, and run() changes no argument {of}")


def _check_options(file: str, gate: Mapping[str, Any], kind: Kind) -> None:
    for key in kind.numbers:
        if key not in gate:
            raise TaskFault(f"{file}: gate {gate['gate']} needs a number called {key}")
    for key, option in {**dict.fromkeys(kind.numbers, NUMBER), **kind.optional, "change": SWITCH}.items():
        if key in gate and not option.fits(gate[key]):
            raise TaskFault(f"{file}: {key} of gate {gate['gate']} must be {option.told}, not {gate[key]!r:.80}")


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
