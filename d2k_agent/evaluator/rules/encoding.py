"""static.encoding: the text that is judged is the text that runs."""

from __future__ import annotations

import io
import tokenize

from d2k_agent.contract import Violation


def foreign_encoding(source: str) -> tuple[Violation, ...]:
    """A violation where the source declares an encoding other than UTF-8, under which comments could turn into code."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source.encode("utf-8", "surrogatepass")).readline)
    except SyntaxError as problem:
        return (_violation(str(problem)),)
    return () if encoding in ("utf-8", "utf-8-sig") else (_violation(f"the source declares the encoding {encoding}"),)


def _violation(what: str) -> Violation:
    return Violation("static.encoding", f"{what}: write UTF-8 and remove the declaration", 1)
