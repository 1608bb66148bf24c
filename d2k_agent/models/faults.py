"""What a provider's failure means: it may pass, the operator must act, or the conversation has grown too long.

The one place where foreign exceptions are translated. Judges an exception by its status code, headers and text, so
that it needs no provider library; every text that leaves is masked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from d2k_agent.errors import CallsRefused, ContextOverflow, D2KError, ModelError, UsageError
from d2k_agent.models.keys import names_a_key
from d2k_agent.models.parameters import NAMES
from d2k_agent.models.retry import Passing

_TOO_LONG = re.compile(
    r"maximum context length|context[ _](?:length|window|size|limit)|prompt is too long|input is too long"
    r"|request_too_large|too large for model",
    re.IGNORECASE,
)
_NO_CREDIT = re.compile(r"insufficient_quota|credit balance is too low", re.IGNORECASE)
_SECRET = re.compile(r"\b(?:sk|gsk|xai|hf|pplx|r8)[-_][\w-]{8,}|\bAIza[\w-]{20,}|(?<=[Bb]earer )[\w.-]{8,}")
_NO_COMPLETION = re.compile(
    r"Empty or invalid response|no 'choices'|Invalid response object|Error converting to valid response"
)
"""What litellm says of an answer that was whole, and had the status of a good one, and another shape."""
_EVENTS = re.compile(r"(?:^|Received: ['\"]|Original Response: )\s*(?::|(?:data|event|id|retry):)")
"""How an event stream begins, alone or quoted by litellm."""
_STREAM_ONLY = re.compile(
    r"only supports? (?:the )?stream|stream(?:ing)? (?:must|is required)|enable the stream|non-streaming", re.IGNORECASE
)
_NOT_TAKEN = re.compile(
    r"unsupported|(?:not|n't|no longer) (?:\w+ )?(?:support|permit|allow)|unrecogni[sz]ed|unknown|unexpected"
    r"|extra inputs|deprecated",
    re.IGNORECASE,
)
"""What a provider says of a parameter that it refuses, whatever its value."""
_PROSE = ("effort", "thinking", "reasoning", "think")
"""Names of parameters that sentences use as words."""
_DROP_ADVICE = re.compile(r"\s*\b(?:To \w+|Set|or set)\b[^.]*?(?:litellm\.)?drop_params.*")
"""What litellm says to set in litellm, which nobody can set here."""
_OF_CALLS = {
    "'tools'": ("has no native tool calls", '"json_schema" or "json_text"'),
    "'response_format'": ("takes no schema of its answers", '"json_text"'),
}
"""What a parameter that LiteLLM refuses means, and what `calls` may be without it."""
_MISREAD = ("KeyError", "IndexError", "TypeError", "AttributeError")
_NEVER_SENT = ("ConnectError", "ConnectTimeout", "UnsupportedProtocol", "PoolTimeout")


class Mask:
    """Takes keys out of a text: the known ones by value, others by their usual shape."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        named = [(value, name) for name, value in keys.items() if names_a_key(name) and len(value) >= 6]
        self._keys = sorted(named, key=lambda pair: -len(pair[0]))

    def __call__(self, text: str) -> str:
        """`text` with every key replaced by the name of its variable, or by `<key>`."""
        for value, name in self._keys:
            text = text.replace(value, f"<{name}>")
        return _SECRET.sub("<key>", text)


@dataclass(frozen=True)
class Judge:
    """Translates the failures of one model. `key_names` says which variables hold its key, in words.

    `way_on` says what to do once a failure is mended. `sent` names the options that go with a request, `left_out` those
    that the model's row keeps back; `streams`: answers are asked for in pieces.
    """

    model: str
    key_names: str
    server: str | None
    mask: Mask
    way_on: str = "resume the run"
    sent: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    streams: bool = False

    def __call__(self, error: Exception) -> Passing | D2KError:
        """A failure that may pass, or the exception to raise."""
        status, text = getattr(error, "status_code", None), self._told(error)
        if _is_no_completion(error):
            return self._no_completion(error, status, text)
        if status in (400, 422) and not self.streams and _STREAM_ONLY.search(text):
            return self._stream_only(f"the provider answers {self.model} in pieces alone ({text})")
        if type(error).__name__ == "ContextWindowExceededError" or status == 413:
            return self._too_long(text)
        if status in (400, 422) and _TOO_LONG.search(text):
            return self._too_long(text)
        if status == 402 or (status in (400, 429) and _NO_CREDIT.search(f"{text} {getattr(error, 'body', '')}")):
            return UsageError(f"the account for {self.model} has no credit left ({text}); add some")
        if status in (401, 403, 404):
            return self._refused(status, text)
        if type(error).__name__ == "UnsupportedParamsError":
            return self._unsupported(text)
        if status in (400, 422) and (option := self._option_in(text)):
            return self._option_refused(option, text)
        if status in (408, 409, 425, 429) or (isinstance(status, int) and status >= 500):
            return Passing(self._reason(status, error, text), _asked_wait_s(error), _maybe_billed(error, status))
        kind = type(error).__name__
        return ModelError(
            f"{self.model} could not be asked ({kind}: {text}); when that is mended, {self.way_on}",
            int(status is None and _maybe_billed(error, status)),
        )

    def _told(self, error: Exception) -> str:
        """The error's own words, in one line, without the lines of code that some of them carry along."""
        words = " ".join(self.mask(str(error)).partition("Traceback (most recent call last)")[0].split())
        return _DROP_ADVICE.sub("", words)[:600]

    def _no_completion(self, error: Exception, status: int | None, text: str) -> Passing | D2KError:
        where = self.server or "the provider"
        if not self.streams and _is_event_stream(error):
            told = f"{where} answers {self.model} with an event stream, which was not asked for"
            return self._stream_only(told, unknown_attempts=1)  # whole, and not to be read
        told = f"{where} answers {self.model} with something that is no chat completion ({text[:300]})"
        final: D2KError = ModelError(f"{told}; when that is mended, {self.way_on}")
        if self.server:
            final = UsageError(f"{told}; see that --api-base is the address of an API, which mostly ends in /v1")
        return Passing(told, maybe_billed=_maybe_billed(error, status), when_repeated=final)

    def _unsupported(self, text: str) -> D2KError:
        for name, (what, others) in _OF_CALLS.items():
            if name in text:
                return CallsRefused(f"{self.model} {what} ({text}): set calls = {others} for it in a models file")
        if option := self._option_in(text):
            return self._option_refused(option, text)
        return UsageError(f"{self.model} does not take an option that was given ({text}); leave that option out")

    def _option_in(self, text: str) -> str | None:
        """The first of our options that a sentence of `text` says to be refused, None where none is."""
        options = {name: option for option in self.sent for name in NAMES[option] if name not in _PROSE}
        for sentence in re.split(r"[.;] ", text):
            words = (re.sub(r"[_.]", "", word).lower() for word in re.findall(r"[\w.]+", sentence))
            named = next((options[word] for word in words if word in options), None)
            if named and _NOT_TAKEN.search(sentence):
                return named
        return None

    def _option_refused(self, name: str, text: str) -> UsageError:
        left_out = json.dumps(list(dict.fromkeys((*self.left_out, name))))
        return UsageError(
            f"{self.model} does not take {name} ({text}); leave that option out: {self._row(f'leave_out = {left_out}')}"
        )

    def _stream_only(self, told: str, unknown_attempts: int = 0) -> UsageError:
        error = UsageError(f"{told}; ask for one: {self._row('stream = true')}")
        error.unknown_attempts = unknown_attempts
        return error

    def _row(self, setting: str) -> str:
        """Where a setting of the model is written, in words."""
        return (
            f"write {setting} below [{json.dumps(self.model)}] in ~/.config/d2k-agent/models.toml, or in a file that "
            "--models-file names"
        )

    def _too_long(self, text: str) -> D2KError:
        return ContextOverflow(
            f"the conversation no longer fits {self.model} ({text}); a larger context would hold it, "
            f"or --protocol efficient, which shortens old results, in time where it knows the window: "
            f"{self._row('context_tokens = NUMBER')}"
        )

    def _refused(self, status: int, text: str) -> D2KError:
        if status == 404:
            where = f"the server {self.server} has" if self.server else "the provider has"
            return UsageError(f"{where} no model {self.model!r} ({text}); check the model's name")
        verb = "does not accept the key" if status == 401 else "does not let the key use this model"
        return UsageError(f"{self.model}: the provider {verb} ({text}); set {self.key_names} to a key that is valid")

    def _reason(self, status: int | None, error: Exception, text: str) -> str:
        if any(type(cause).__name__ in _NEVER_SENT for cause in _causes(error)):
            return (
                f"no connection to {self.server or 'the provider'} for {self.model}: see that it runs and is reachable"
            )
        words = {408: "did not answer in time", 429: "is rate limited"}.get(status or 0, f"failed with status {status}")
        return f"{self.model} {words} ({text})"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(10):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


def _is_no_completion(error: Exception) -> bool:
    """A whole answer with a good status, and no chat completion: a web page, or JSON of another shape.

    An answer that was cut off is not one: it begins as JSON does.
    """
    causes = list(_causes(error))
    if any(type(cause).__module__.partition(".")[0] in ("httpx", "httpcore") for cause in causes):
        return False  # a status that tells of an error, or a connection that broke
    if any(type(cause).__name__ == "JSONDecodeError" for cause in causes):
        return any(getattr(cause, "pos", None) == 0 for cause in causes)
    misread = getattr(error, "status_code", None) == 500 and any(type(cause).__name__ in _MISREAD for cause in causes)
    return misread or _NO_COMPLETION.search(str(error)) is not None


def _is_event_stream(error: Exception) -> bool:
    """Whether the answer that could not be read is one of server-sent events."""
    texts = (str(getattr(cause, "doc", "") or cause) for cause in _causes(error))
    return any(_EVENTS.search(text) for text in texts)


def _maybe_billed(error: Exception, status: int | None) -> bool:
    """Without an error answer from the provider, and with the request sent, the work may have been done and billed."""
    if any(type(cause).__name__ in _NEVER_SENT for cause in _causes(error)):
        return False
    answered = bool(_headers(error)) and status != 408
    return not answered or type(error).__name__ == "APIConnectionError"


def _headers(error: Exception) -> Mapping[str, Any]:
    for source in (getattr(error, "litellm_response_headers", None), getattr(error, "response", None)):
        headers = getattr(source, "headers", source)
        if headers:
            return {str(name).lower(): value for name, value in dict(headers).items()}
    return {}


def _asked_wait_s(error: Exception) -> float | None:
    """Seconds that the provider asked to wait, from any of the three forms in use. A date counts from its own clock."""
    headers = _headers(error)
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers[name]) * unit)
        except (KeyError, ValueError):
            continue
    try:
        until, now = (parsedate_to_datetime(headers[name]) for name in ("retry-after", "date"))
        return max(0.0, (until - now).total_seconds())
    except (KeyError, ValueError, TypeError):
        return None
