"""Any provider's model by its LiteLLM name. The only file that names litellm, which is loaded with the first model.

Covers: one request, its translation to a ModelReply, the check of name and key before any request, and which prices
hold. Does not cover: streaming, price lists, models without tool calls. litellm decides when it is imported whether it
fetches price tables from the network, and reads that from the process's environment: `_load` writes those variables,
for the whole process. Nothing here reads the environment; litellm itself does, for keys that it was not given.
"""

from __future__ import annotations

import copy
import importlib.metadata
import json
import logging
import math
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from d2k_agent.config import ModelOptions
from d2k_agent.errors import UsageError
from d2k_agent.models.caching import cache_points
from d2k_agent.models.faults import Judge, Mask
from d2k_agent.models.price_lists import ModelNames, PriceFile, map_row, snapshot_row
from d2k_agent.models.prices import PriceRow, cost_usd
from d2k_agent.models.protocol import Message, ModelReply
from d2k_agent.models.retry import RetryPolicy, ask_with_retry
from d2k_agent.models.usage import Usage, usage_from_report

_ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "HF_HUB_OFFLINE": "1",
}
_CACHES_WHERE_TOLD = ("anthropic", "bedrock", "openrouter", "vertex_ai", "azure_ai")
"""Providers of Claude models. They cache nothing without marked messages; everybody else caches by itself."""
_SAME_PRICE = 1e-9
"""Relative: litellm adds up in binary fractions."""
_NOT_PARAMETERS = {"messages", "system", "system_instruction", "contents", "input", "instructions", "tools"}


class LiteLLMModel:
    """One model of one provider.

    `keys` maps names of variables to keys (as an environment does); they go to the provider alone, and are masked in
    every text that leaves. `wait`, `jitter` and `clock` are seams for tests; `notice` is given a line before each wait.
    Replies are priced by `price`, which `find_price` finds; without one, their cost is unknown.
    Raises UsageError when the name is no model's or a key is missing.
    """

    def __init__(
        self,
        name: str,
        options: ModelOptions | None = None,
        keys: Mapping[str, str] | None = None,
        *,
        price: PriceRow | None = None,
        policy: RetryPolicy | None = None,
        wait: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
        notice: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.name = name
        self._options = options or ModelOptions()
        self._price = price
        self._policy = policy or RetryPolicy()
        self._wait, self._jitter, self._clock, self._notice = wait, jitter, clock, notice
        self._mask = Mask(keys or {})
        self._litellm = _load()
        self._bare_name, self._provider = _provider_of(self._litellm, name)
        self._api_key, key_names = self._find_key(keys or {})
        self._judge = Judge(name, key_names, self._mask(self._options.api_base or "") or None, self._mask)

    def complete(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> ModelReply:
        """The next reply. Asks again where a failure may pass; see Model for what is raised otherwise."""
        began, sent = self._clock(), dict[str, Any]()
        request = self._request(messages, tools, sent)
        answer = ask_with_retry(
            lambda: self._litellm.completion(**request),
            self._judge,
            self._policy,
            self._wait,
            self._jitter,
            self._notice,
        )
        choice = answer.value.choices[0] if answer.value.choices else None
        usage = self._usage(answer.value)
        return ModelReply(
            message=_whole_message(choice),
            finish_reason=choice and choice.finish_reason,
            usage=usage,
            cost_usd=self._cost_usd(answer.value, usage),
            parameters=self._parameters(sent),
            seconds=self._clock() - began,
            attempts=answer.attempts,
            unknown_attempts=answer.unknown_attempts,
        )

    @property
    def _claude(self) -> bool:
        return self._provider in _CACHES_WHERE_TOLD and "claude" in self._bare_name.lower()

    def _find_key(self, keys: Mapping[str, str]) -> tuple[str | None, str]:
        """The key to send (None: litellm finds it, or none is needed), and the variables that hold it, in words."""
        missing = self._missing()
        any_of = [name for name in missing if name.endswith(("_KEY", "_TOKEN"))]
        key = next((keys[name] for name in any_of if keys.get(name)), None)
        names = " or ".join(any_of) or f"{self._provider.upper()}_API_KEY"
        if key is None and missing and self._options.api_base:
            key = "none"  # a server of one's own mostly wants no key, but the client library wants one
        still = self._missing(api_key=key) if key else missing
        if still and not self._options.api_base:
            wanted = names if any_of == still else ", ".join(still)
            raise UsageError(f"no key for {self.name}: set {wanted}, then run the command again")
        return key, names

    def _missing(self, **given: str | None) -> list[str]:
        found = self._litellm.validate_environment(self.name, api_base=self._options.api_base, **given)
        return [] if found["keys_in_environment"] else list(found["missing_keys"])

    def _request(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], sent: dict[str, Any]
    ) -> dict[str, Any]:
        """Arguments of the call. `sent` is filled with the body that really leaves, once it does."""
        wishes = {
            name: getattr(self._options, name)
            for name in ("max_tokens", "temperature", "reasoning_effort")
            if getattr(self._options, name) is not None
        }
        request = {
            "model": self.name,
            "messages": copy.deepcopy(list(messages)),
            "timeout": self._options.timeout_s,
            "max_retries": 0,
            "api_key": self._api_key,
            "api_base": self._options.api_base,
            "logger_fn": lambda details: _note_body(details, sent),
            **wishes,
        }
        if tools:
            request["tools"] = [dict(tool) for tool in tools]
        if self._options.api_base:
            request["allowed_openai_params"] = list(wishes)  # the server's owner knows better than a table
        if self._claude:
            points = cache_points(messages)
            request["cache_control_injection_points"] = [{"location": "message", "index": at} for at in points]
        return request

    def _usage(self, response: Any) -> Usage:
        report = getattr(response, "usage", None)
        report = report.model_dump() if report is not None else {}
        if self._claude:
            # This API counts no reasoning; litellm puts a local tokenizer's estimate there.
            report["completion_tokens_details"] = None
        return usage_from_report(report)

    def _cost_usd(self, response: Any, usage: Usage) -> float | None:
        """The reply's price, None where the usage or the price is not known.

        Litellm's table is read here as rates of tokens. Litellm itself sees more of a reply, such as the hour, the
        region and the service tier; where that makes another price, the row is not the reply's.
        """
        cost = None if self._price is None else cost_usd(self._price, usage)
        if cost is None or self._price is None:
            return None
        billed = response._hidden_params.get("response_cost")  # noqa: SLF001 - where litellm documents it
        counted_alike = usage.output == response.usage.completion_tokens
        if self._price.source == _map_version() and counted_alike and billed is not None:
            return float(cost) if math.isclose(float(cost), billed, rel_tol=_SAME_PRICE) else None
        return float(cost)

    def _parameters(self, sent: Mapping[str, Any]) -> dict[str, Any]:
        kept = {key: value for key, value in sent.items() if key not in _NOT_PARAMETERS and value not in (None, {}, [])}
        masked: dict[str, Any] = json.loads(self._mask(json.dumps(kept, default=str)))
        return masked


def find_price(name: str, options: ModelOptions, file: PriceFile | None = None) -> PriceRow | None:
    """The prices that hold for a model: those of `file`, else of a snapshot that ships, else of litellm's table.

    None where none is known; a server that `options` name has the prices of a file or none. Raises UsageError when
    the name is no model's, or when `file` has no row for it.
    """
    litellm = _load()
    bare_name, provider = _provider_of(litellm, name)
    names = ModelNames(name, provider, bare_name)
    if file is not None:
        return file.row(names)
    if options.api_base:
        return None
    return snapshot_row(names) or map_row(litellm.model_cost, names, _map_version())


def _map_version() -> str:
    return f"LiteLLM {importlib.metadata.version('litellm')}"


def _provider_of(litellm: Any, name: str) -> tuple[str, str]:
    """The name that a provider knows the model by, and the provider's."""
    try:
        bare_name, provider, *_ = litellm.get_llm_provider(name)
    except litellm.exceptions.BadRequestError:
        raise UsageError(
            f"no provider is known for the model {name!r}; give PROVIDER/NAME, for example anthropic/claude-..., "
            "or openai/NAME with --api-base for a server of your own"
        ) from None
    return str(bare_name), str(provider)


def _whole_message(choice: Any) -> Message:
    """Everything the model said, thinking blocks and signatures included; an empty reply where no choice came.

    Nothing is repaired here: what is wrong with calls and ids is for the loop to see, to record and to answer.
    """
    said: Message = choice.message.model_dump(exclude_none=True) if choice else {}
    return {"role": "assistant", "content": "", **said}


def _note_body(details: Mapping[str, Any], sent: dict[str, Any]) -> None:
    body = (details.get("additional_args") or {}).get("complete_input_dict")
    if isinstance(body, (str, bytes)):
        body = json.loads(body)
    if isinstance(body, Mapping):
        sent.clear()
        sent.update(body)


def _load() -> Any:
    """litellm, told to fetch nothing and to print nothing of its own."""
    os.environ.update(_ENVIRONMENT)
    import litellm

    litellm.suppress_debug_info = True
    logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
    return litellm
