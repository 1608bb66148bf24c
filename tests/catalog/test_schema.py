"""The small schema checker says where data does not fit, and refuses schemas that it would only half check."""

from __future__ import annotations

import json
from typing import Any

import pytest

from d2k_agent.catalog import schema_dir
from d2k_agent.catalog.schema import problems

PERSON: dict[str, Any] = {
    "type": "object",
    "required": ["name"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "minLength": 2, "pattern": "^[a-z]+$"},
        "ages": {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0}},
        "friend": {"$ref": "#/$defs/friend"},
        "weight": {"type": "number"},
    },
    "$defs": {"friend": {"enum": ["ada", "alan"]}},
}


@pytest.mark.parametrize("data", [{"name": "ada"}, {"name": "ada", "ages": [1], "friend": "alan", "weight": 3}])
def test_what_fits_has_no_problems(data: dict[str, Any]) -> None:
    assert problems(PERSON, data) == []


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ([], "the document: object expected, not list"),
        ({}, "name: missing"),
        ({"name": "a"}, "name: at least 2 characters expected, not 1"),
        ({"name": "ADA"}, "name: 'ADA' does not match ^[a-z]+$"),
        ({"name": "ada", "ages": []}, "ages: at least 1 items expected, not 0"),
        ({"name": "ada", "ages": [3, -1]}, "ages[1]: -1 is below 0"),
        ({"name": "ada", "ages": [True]}, "ages[0]: integer expected, not bool"),
        ({"name": "ada", "ages": [1.5]}, "ages[0]: integer expected, not float"),
        ({"name": "ada", "friend": "eve"}, "friend: 'eve' is not one of 'ada', 'alan'"),
        ({"name": "ada", "height": 2}, "height: unknown key"),
    ],
)
def test_what_does_not_fit_is_named_with_its_place(data: Any, problem: str) -> None:
    assert problems(PERSON, data) == [problem]


def test_a_schema_that_would_be_half_checked_is_refused() -> None:
    with pytest.raises(ValueError, match="'oneOf' is not supported"):
        problems({"oneOf": []}, {})


@pytest.mark.parametrize("path", sorted(schema_dir().glob("*.json")), ids=lambda path: path.name)
def test_every_schema_that_ships_can_be_checked_in_full(path: Any) -> None:
    schema = json.loads(path.read_text())

    def walk(part: dict[str, Any]) -> None:
        problems({key: value for key, value in part.items() if key != "$ref"}, None)
        for group in ("properties", "$defs"):
            for item in part.get(group, {}).values():
                walk(item)
        if "items" in part:
            walk(part["items"])

    walk(schema)
