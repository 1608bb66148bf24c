"""The textual form of a stopping policy: NAME:OPTION=VALUE,OPTION=VALUE."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from d2k_agent.errors import UsageError
from d2k_agent.study.policies import Gain, Headroom, Plateau, Policy

FORMS = "headroom:factor=1.2, plateau:turns=20,percent=1 or gain:percent-per-usd=0.5,percent-per-mtok=0.5,turns=20"
DEFAULT_POLICIES = (
    "headroom:factor=1.1",
    "headroom:factor=1.25",
    "headroom:factor=1.5",
    "plateau:turns=10,percent=1",
    "plateau:turns=20,percent=1",
    "plateau:turns=40,percent=1",
    "gain:percent-per-usd=0.1,turns=20",
    "gain:percent-per-usd=1,turns=20",
    "gain:percent-per-mtok=1,turns=20",
)


def _whole(text: str) -> int:
    """At least 1."""
    if not (text.isascii() and text.isdecimal() and 0 < int(text) <= 1_000_000):
        raise ValueError("a whole number from 1 to 1000000")
    return int(text)


def _number(text: str, least: float, *, least_itself: bool) -> float:
    wanted = f"a number of at least {least:g}" if least_itself else f"a number above {least:g}"
    try:
        value = float(text)
    except ValueError:
        raise ValueError(wanted) from None
    if not math.isfinite(value) or value < least or (value == least and not least_itself):
        raise ValueError(wanted)
    return value


def _positive(text: str) -> float:
    return _number(text, 0, least_itself=False)


def _at_least_one(text: str) -> float:
    return _number(text, 1, least_itself=True)


def _not_negative(text: str) -> float:
    return _number(text, 0, least_itself=True)


_KINDS: dict[str, tuple[Callable[..., Policy], dict[str, Callable[[str], float]]]] = {
    Headroom.NAME: (Headroom, {"factor": _at_least_one}),
    Plateau.NAME: (Plateau, {"turns": _whole, "percent": _not_negative}),
    Gain.NAME: (Gain, {"percent-per-usd": _positive, "percent-per-mtok": _positive, "turns": _whole}),
}


def parse_policy(text: str) -> Policy:
    """The policy that `text` names; options that it leaves out have their defaults (`gain` needs one of its limits).

    Raises UsageError that says what is wrong and which policies there are.
    """
    name, _, options = text.partition(":")
    if name not in _KINDS:
        raise _refused(text, f"there is no policy {name!r}")
    kind, readers = _KINDS[name]
    values: dict[str, Any] = {}
    for option, value in _options(text, options):
        if option not in readers:
            raise _refused(text, f"{name} has no option {option!r} but {', '.join(readers)}")
        if option in values:
            raise _refused(text, f"{option} is given twice")
        try:
            values[option] = readers[option](value)
        except ValueError as problem:
            raise _refused(text, f"{option} must be {problem}, not {value!r}") from None
    if kind is Gain and not values.keys() & {"percent-per-usd", "percent-per-mtok"}:
        raise _refused(text, "gain needs percent-per-usd or percent-per-mtok")
    return kind(**{option.replace("-", "_"): value for option, value in values.items()})


def _options(text: str, options: str) -> Iterator[tuple[str, str]]:
    for part in options.split(",") if options else ():
        option, equals, value = part.partition("=")
        if not equals:
            raise _refused(text, f"{part!r} is no option with a value")
        yield option.strip(), value.strip()


def _refused(text: str, problem: str) -> UsageError:
    return UsageError(f"{text!r} is no stopping policy: {problem}; give {FORMS}")
