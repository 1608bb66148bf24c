"""A constant is defined once: not twice in a module, and not once more in another one by the same name and value."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
LEAST_VALUE_CHARS = 25
"""Shorter values, such as 0.1 or an empty tuple, agree by chance."""


@cache
def constants() -> tuple[tuple[str, str, str], ...]:
    """The module, name and value of every assignment to a name in capitals at the top level."""
    found = []
    for folder in ("d2k_agent", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                targets = node.targets if isinstance(node, ast.Assign) else []
                names = [target.id for target in targets if isinstance(target, ast.Name) and target.id.isupper()]
                found += [(str(path.relative_to(ROOT)), name, ast.unparse(node.value)) for name in names]  # type: ignore[attr-defined]
    return tuple(found)


def test_no_module_defines_a_constant_twice() -> None:
    places = [(module, name) for module, name, _ in constants()]
    assert len(places) > 100
    assert sorted({place for place in places if places.count(place) > 1}) == []


def test_no_two_modules_define_the_same_constant() -> None:
    modules = defaultdict(set)
    for module, name, value in constants():
        if len(value) >= LEAST_VALUE_CHARS:
            modules[name, value].add(module)
    assert {name: places for (name, _), places in modules.items() if len(places) > 1} == {}
