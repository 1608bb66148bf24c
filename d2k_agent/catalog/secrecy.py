"""Does a staged workspace give away what was withheld? Sentences of guidance, and lines of expert or baseline code.

A *sentence* ends with . ; : ? or !, compared without regard to case and white space, from MIN_SENTENCE characters on.

A *telling line* of source code has at least MIN_LINE characters without its indentation. Not telling, because they
follow from the published task and not from a design: imports, numbers alone (coefficients), the entry point's signature
and the decorator of every kernel.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from d2k_agent.catalog.levels import LEVELS, level_texts

MIN_SENTENCE = 20
MIN_LINE = 12
NOT_TELLING = re.compile(r"(import|from)\s|[-+0-9.,()\[\]eE\s]+$|def run\(|@triton\.jit$")


def leaks(
    staged: Mapping[str, bytes], guidance: dict[str, Any], levels: Collection[str], sources: Mapping[str, str]
) -> list[str]:
    """One line for each withheld sentence and each telling source line found in `staged`, with the file it is in."""
    texts = {name: _readable(name, content) for name, content in staged.items()}
    found = []
    for level in LEVELS:
        if level not in levels:
            secrets = {sentence for text in level_texts(guidance, level) for sentence in sentences(text)}
            found += [f"{name} has a sentence of {level}: {secret!r}" for name, secret in _hits(texts, secrets)]
    for source, code in sources.items():
        found += [f"{name} has a line of {source}: {line!r}" for name, line in _hits(texts, set(telling_lines(code)))]
    return found


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text in the form in which they are compared."""
    for part in re.split(r"(?<=[.;:?!])\s+", text):
        sentence = _plain(part)
        if len(sentence) >= MIN_SENTENCE:
            yield sentence


def telling_lines(code: str) -> Iterator[str]:
    """The lines of source code that a workspace must not hold, in the form in which they are compared."""
    for line in code.splitlines():
        stripped = line.strip()
        if len(stripped) >= MIN_LINE and not NOT_TELLING.match(stripped):
            yield _plain(stripped)


def _hits(texts: Mapping[str, str], secrets: Collection[str]) -> Iterator[tuple[str, str]]:
    for secret in sorted(secrets):
        for name, text in texts.items():
            if secret in text:
                yield name, secret


def _readable(name: str, content: bytes) -> str:
    """The text, and for JSON its strings without escapes, in the form in which sentences are compared."""
    text = content.decode("utf-8", "replace")
    if name.endswith(".json"):
        try:
            text += "\n" + "\n".join(_strings(json.loads(text)))
        except ValueError:
            pass  # not JSON after all: the plain text stands
    return _plain(text)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
