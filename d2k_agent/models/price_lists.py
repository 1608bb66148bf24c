"""Where prices come from: the dated snapshots that ship, and cost maps in LiteLLM's format.

Covers: reading both, and finding a model's row in them. Does not cover: LiteLLM's own map (litellm_client.py hands it
in), or arithmetic (prices.py). A cost map gives US$ per token by model:
`{"openai/gpt": {"input_cost_per_token": 5e-06, "output_cost_per_token": 2.5e-05, ...}}`.
"""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

from d2k_agent.errors import UsageError
from d2k_agent.models.faults import Mask
from d2k_agent.models.keys import told
from d2k_agent.models.prices import PriceRow, Rates, Tier

SNAPSHOT = Path(__file__).with_name("prices.toml")
RATE_OF_FIELD = {
    "input_cost_per_token": "uncached_input",
    "output_cost_per_token": "output",
    "cache_creation_input_token_cost": "cache_write",
    "cache_creation_input_token_cost_above_1hr": "cache_write_1h",
    "cache_read_input_token_cost": "cache_read",
    "output_cost_per_reasoning_token": "reasoning",
}
FIELD_OF_RATE = {rate: field for field, rate in RATE_OF_FIELD.items()}
"""What to add to a price file for a rate that it lacks."""
NEEDED = ("input_cost_per_token", "output_cost_per_token")
_TIER_FIELD = re.compile(rf"({'|'.join(RATE_OF_FIELD)})_above_(\d+)k_tokens")
_OF_A_FLOAT = Context(prec=12)
"""A binary fraction carries noise from its 16th digit on; no provider's price has twelve."""


@dataclass(frozen=True)
class ModelNames:
    """What a model goes by in a price list: `given` by the user, and `bare` at `provider` (None: nobody said which)."""

    given: str
    provider: str | None
    bare: str

    @classmethod
    def of(cls, given: str) -> ModelNames:
        """The names by their form alone: what stands before the first slash is the provider."""
        provider, slash, bare = given.partition("/")
        return cls(given, provider, bare) if slash else cls(given, None, given)

    @property
    def full(self) -> str:
        """The bare name behind its provider, where there is one."""
        return self.bare if self.provider is None else f"{self.provider}/{self.bare}"


class PriceFile:
    """A cost map that the user gives; `mask` knows the keys that no sentence may tell.

    Raises UsageError that names file, model and field.
    """

    def __init__(self, path: Path, name: str, mask: Mask | None = None) -> None:
        self.name = name
        self._mask = mask or Mask({})
        try:
            data = json.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)
        except OSError as problem:
            raise UsageError(
                f"the price file {name} cannot be read ({problem.strerror}); give a JSON file in the format of "
                "LiteLLM's cost map"
            ) from None
        except (ValueError, RecursionError) as problem:
            raise UsageError(f"the price file {name} is no JSON ({problem}); correct it") from None
        if not isinstance(data, dict):
            raise UsageError(f"the price file {name} must be an object with a model's name for each key; correct it")
        self._entries = data
        for model, entry in data.items():
            try:
                _checked(entry)
            except ValueError as problem:
                raise UsageError(self._mask(f"{name}: {model}: {problem}; correct it")) from None

    def row(self, names: ModelNames) -> PriceRow:
        """The model's row. Raises UsageError when the file has none, or one without the rates that all need."""
        found = _entry(self._entries, names)
        if found is None:
            raise UsageError(f"the price file {self.name} has no row for {names.given}; add one, or name another file")
        try:
            return row_of_map(*found, self.name)
        except ValueError as problem:
            raise UsageError(f"{self.name}: {found[0]}: {problem}; add it") from None


def snapshot_row(names: ModelNames) -> PriceRow | None:
    """The model's row in the snapshots that ship, None where there is none."""
    tables = tomllib.loads(SNAPSHOT.read_text(encoding="utf-8"), parse_float=Decimal)
    if names.full not in tables:
        return None
    table = tables[names.full]
    tiers = [Tier(tier.pop("above_input"), _rates(tier)) for tier in table.pop("tiers", ())]
    source, date = table.pop("source"), table.pop("date").isoformat()
    return PriceRow(names.full, source, date, _rates(table), tuple(tiers))


def map_row(entries: Mapping[str, Any], names: ModelNames, source: str) -> PriceRow | None:
    """The model's row in a cost map, None where the map does not price it by the token."""
    found = _entry(entries, names)
    try:
        return None if found is None else row_of_map(*found, source)
    except ValueError:
        return None


def row_of_map(model: str, entry: Mapping[str, Any], source: str) -> PriceRow:
    """One entry of a cost map as a price row. Raises ValueError for one that has no rate for input or output."""
    levels = dict(_levels(entry))
    base = levels.pop(0, {})
    for field in NEEDED:
        if RATE_OF_FIELD[field] not in base:
            raise ValueError(f"{field} is missing")
    rates = Rates(**base)
    tiers = (Tier(above, dataclasses.replace(rates, **levels[above])) for above in sorted(levels))
    return PriceRow(model, source, None, rates, tuple(tiers))


def _entry(entries: Mapping[str, Any], names: ModelNames) -> tuple[str, Mapping[str, Any]] | None:
    """The entry of a model, by its most specific name. A bare one is another provider's where the entry says so."""
    for name in (names.given, names.full):
        if name in entries:
            return name, entries[name]
    entry = entries.get(names.bare)
    if entry is None or not str(entry.get("litellm_provider", names.provider)).startswith(names.provider or ""):
        return None
    return names.bare, entry


def _levels(entry: Mapping[str, Any]) -> Iterator[tuple[int, dict[str, Decimal]]]:
    """Rates by the input tokens above which they hold; those of an entry stand in one field each, or in ranges."""
    found: dict[int, dict[str, Decimal]] = {}
    for field, value in entry.items():
        match = _TIER_FIELD.fullmatch(field)
        if field in RATE_OF_FIELD and value is not None:
            found.setdefault(0, {})[RATE_OF_FIELD[field]] = _per_million(field, value)
        elif match and value is not None:
            above = int(match[2]) * 1_000
            found.setdefault(above, {})[RATE_OF_FIELD[match[1]]] = _per_million(field, value)
    for part in entry.get("tiered_pricing") or ():
        if "range" in part:
            above = int(part["range"][0] + 0)  # a text is no number
            rates = {name: _per_million(field, part[field]) for field, name in RATE_OF_FIELD.items() if field in part}
            found[above] = {**found.get(above, {}), **rates}
    yield from found.items()


def _checked(entry: Any) -> None:
    """Raise ValueError that names the field of `entry` that is wrong."""
    if not isinstance(entry, dict):
        raise ValueError(f"a row must be an object, not {told(entry)}")
    try:
        dict(_levels(entry))
    except (TypeError, KeyError, IndexError):
        raise ValueError("tiered_pricing must be a list of objects with a range of two numbers of tokens") from None


def _per_million(field: str, value: Any) -> Decimal:
    """US$ per million tokens from US$ per token."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError(f"{field} must be US$ per token as a number, not {told(value)}")
    exact = _OF_A_FLOAT.create_decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if not exact.is_finite() or exact < 0:
        raise ValueError(f"{field} must be US$ per token, 0 or more, not {value}")
    return exact.scaleb(6) + 0  # and no exponent where it is a whole number


def _rates(table: Mapping[str, int | Decimal]) -> Rates:
    return Rates(**{name: Decimal(value) for name, value in table.items()})
