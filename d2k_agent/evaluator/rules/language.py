"""Which names below triton.language are Triton's own: its modules also hold all that they import, such as functools."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from importlib.util import find_spec

from d2k_agent.evaluator.rules.allow_list import TRITON_PREFIXES

_MOST_S = 120
_UNTOLD = "the installed Triton cannot say what its language has"
_LISTING = "d2k_agent.evaluator.rules.triton_listing"


@functools.cache
def names() -> dict[str, dict[str, str]]:
    """What the installed Triton has, as triton_listing.py says it. Raises OSError where Triton cannot be asked.

    Asked outside: this process must stay able to fork both kinds of zygote, so it never imports Triton.
    """
    # By its text: an evaluator that came as an archive has no files.
    text = find_spec(_LISTING).loader.get_source(_LISTING)  # type: ignore[union-attr]
    command = [sys.executable, "-P", "-c", text, *sorted(TRITON_PREFIXES)]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_MOST_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise OSError(f"{_UNTOLD}: it took more than {_MOST_S} s") from None
    if done.returncode != 0:
        raise OSError(f"{_UNTOLD}: {done.stderr.strip().rpartition(chr(10))[2]}")
    found: dict[str, dict[str, str]] = json.loads(done.stdout)
    if "triton.language" not in found:
        raise OSError(f"{_UNTOLD}: it cannot be imported; see what `python3 -c 'import triton.language'` says")
    return found


def is_module(path: str) -> bool:
    """True where a full name below TRITON_PREFIXES is a module's, by whichever way."""
    return _walked(path)[0] in names()


def is_tritons(path: str) -> bool:
    """True where a full name below TRITON_PREFIXES is Triton's own, or nothing: what is not there, Python says."""
    kind, members = _walked(path)
    return kind in ("open", "missing") or kind in names() or (kind == "leaf" and not members)


def _walked(path: str) -> tuple[str, bool]:
    """What a full name comes to, and whether members of it are asked for: as triton_listing.py says, or "missing"."""
    prefix = next(prefix for prefix in TRITON_PREFIXES if path == prefix or path.startswith(f"{prefix}."))
    kind, parts = prefix, path[len(prefix) + 1 :].split(".") if path != prefix else []
    for position, part in enumerate(parts):
        if kind not in names():
            return kind, position < len(parts)
        kind = names()[kind].get(part, "missing")
    return kind, False
