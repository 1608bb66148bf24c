"""How a model differs from the others: a row of a small table, which users extend in a file of their own.

Covers: what a row may say, reading the table that ships and a user's file, and finding what holds for a model. Does
not cover: acting on it (litellm_client.py).
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from d2k_agent.errors import UsageError
from d2k_agent.models.faults import Mask
from d2k_agent.models.keys import names_a_key, told
from d2k_agent.models.price_lists import ModelNames

SHIPPED = Path(__file__).with_name("quirks.toml")
NATIVE, JSON_SCHEMA, JSON_TEXT = "native", "json_schema", "json_text"
CALLS = (NATIVE, JSON_SCHEMA, JSON_TEXT)
OPTIONS = ("max_tokens", "temperature", "reasoning_effort")
SENDABLE = (
    "top_p top_k min_p seed stop presence_penalty frequency_penalty repetition_penalty logit_bias verbosity thinking "
    "tool_choice parallel_tool_calls store include reasoning prompt_cache_key prompt_cache_retention safety_identifier "
    "user extra_body"
).split()
"""Parameters that a row may add. None of them says where a request goes or with which key: rows are recorded in run
folders, which may be a stranger's. `extra_body` is an object of anything else, for OpenAI-compatible servers."""


@dataclass(frozen=True)
class Quirks:
    """What holds for one model. Without any row: the defaults.

    `calls`: tools are called natively, or by JSON actions, in a form that the provider enforces (json_schema) or that
    nobody does (json_text). `stream`: answers are asked for in pieces. `leave_out` names options of ours that are
    never sent, `send` further parameters that always are. `cache_marks`: the provider caches only where messages are
    marked. `counts_reasoning`: what is reported of it was counted. `counts` names fields that an answer in one piece
    must have: without them its usage is an estimate of LiteLLM's. `context_tokens` is the context window, input and
    output together, None where only the provider's list knows: where tokens are reported, what surely does not fit is
    not sent. `rows` names the rows that were found, `calls_row` the one that says how tools are called.

    Raises UsageError for a value that no row can have.
    """

    calls: str = NATIVE
    stream: bool = False
    leave_out: tuple[str, ...] = ()
    send: dict[str, Any] = field(default_factory=dict)
    cache_marks: bool = False
    counts_reasoning: bool = True
    counts: tuple[str, ...] = ()
    context_tokens: int | None = None
    rows: tuple[str, ...] = ()
    calls_row: str | None = None

    def __post_init__(self) -> None:
        if self.calls not in CALLS:
            raise UsageError(f"calls must be one of {', '.join(CALLS)}, not {self.calls!r}")
        for name in self.leave_out:
            if name not in OPTIONS:
                raise UsageError(f"leave_out may name {', '.join(OPTIONS)}, not {name!r}")
        for name in self.send:
            if name not in SENDABLE:
                raise UsageError(f"send may hold {', '.join(SENDABLE)}, not {name!r}")
        for path, leaf in _leaves(self.send):
            if not (math.isfinite(leaf) if isinstance(leaf, float) else isinstance(leaf, str | int | None)):
                raise UsageError(f"send.{'.'.join(path)} must be JSON data (no date, no inf and no nan), not {leaf}")
        self.refuse_keys(Mask({}))
        if self.context_tokens is not None and self.context_tokens < 1:
            raise UsageError(f"context_tokens must be greater than 0, not {self.context_tokens}")

    def refuse_keys(self, mask: Mask) -> None:
        """Raise UsageError where `send` holds a key: by the name of a field, or as something that `mask` takes out.

        What is sent is recorded as it is, or a run could not be resumed: so a key is refused, and not masked.
        """
        for path, leaf in _leaves(self.send):
            texts = [*path, leaf] if isinstance(leaf, str) else path
            if any(_names_a_secret(name, leaf) for name in path) or any(mask(text) != text for text in texts):
                raise UsageError(
                    f"send.{'.'.join(map(mask, path))} looks like a key, and send must hold none, for each run records "
                    "it; keys are taken from the environment"
                )


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each value in tables and lists, at any depth, with the names that lead to it."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _leaves(inner, (*path, str(name)))
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, path)
    else:
        yield path, value


def _names_a_secret(name: str, leaf: Any) -> bool:
    """Whether a field of this name holds a key. Parameters that we know do not, nor do counts and ids of tokens."""
    plain = re.sub(r"\W", "_", name)
    counts = "token" in plain.lower() and not isinstance(leaf, str)
    return name not in SENDABLE and not counts and names_a_key(plain)


class QuirksFile:
    """A table of rows by pattern; `mask` knows the keys that no row may hold and no sentence may tell.

    Raises UsageError that names file, row and field.
    """

    def __init__(self, path: Path, name: str, mask: Mask | None = None) -> None:
        try:
            rows = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as problem:
            raise UsageError(f"the models file {name} cannot be read ({problem.strerror}); give a TOML file") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
            raise UsageError(f"the models file {name} is no TOML ({problem}); correct it") from None
        mask = mask or Mask({})
        for pattern, row in rows.items():
            try:
                Quirks(**_checked(row)).refuse_keys(mask)
            except UsageError as problem:
                raise UsageError(mask(f"{name}: {pattern}: {problem}; correct it")) from None
        self._rows = rows

    def fitting(self, names: ModelNames) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The rows whose pattern fits the model, in the file's order."""
        for pattern, row in self._rows.items():
            if any(fnmatchcase(name.lower(), pattern.lower()) for name in (names.given, names.full)):
                yield pattern, row


def find_quirks(names: ModelNames, users: QuirksFile | None = None) -> Quirks:
    """What the table that ships, and over it the user's file, say of a model."""
    fields: dict[str, Any] = {}
    rows: list[str] = []
    calls_row = None
    for table in (QuirksFile(SHIPPED, SHIPPED.name), users):
        for pattern, row in table.fitting(names) if table is not None else ():
            fields.update(_checked(row))
            rows.append(pattern)
            calls_row = pattern if "calls" in row else calls_row
    return Quirks(**fields, rows=tuple(rows), calls_row=calls_row)


_TYPES: dict[str, type] = {
    "calls": str,
    "stream": bool,
    "leave_out": list,
    "send": dict,
    "cache_marks": bool,
    "counts_reasoning": bool,
    "counts": list,
    "context_tokens": int,
}
_WORDS = {str: "a string", bool: "true or false", list: "a list of strings", dict: "a table", int: "a whole number"}


def _checked(row: Any) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise UsageError(f'a row must be a table such as ["openai/my-model"], not {told(row)}')
    for name, value in row.items():
        if name not in _TYPES:
            raise UsageError(f"unknown field {name!r}; a row may hold {', '.join(_TYPES)}")
        wanted = _TYPES[name]
        if type(value) is not wanted or (isinstance(value, list) and not all(isinstance(item, str) for item in value)):
            raise UsageError(f"{name} must be {_WORDS[wanted]}, not {told(value)}")
    return {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}
