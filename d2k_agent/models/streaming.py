"""One reply out of its pieces, with the usage that the provider reported and no other.

litellm counts tokens by itself where a stream ends without a word on usage, and its count looks like a provider's. The
pieces as they arrived tell the two apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def whole_reply(stream: Any, build: Callable[..., Any]) -> Any:
    """The response that the pieces of litellm's `stream` make, put together by `build` (its stream_chunk_builder).

    Its usage is None where no piece carried one. Raises what the stream raises, where it breaks off before its end.
    """
    response = build(list(stream))
    if all(getattr(piece, "usage", None) is None for piece in stream.chunks):
        response.usage = None
    return response
