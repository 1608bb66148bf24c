"""Any provider's model by its LiteLLM name. The only file that imports litellm, which is loaded with the first model.

Covers: one request, its translation to a ModelReply, the check of name and key before any request, which prices and
quirks hold. Does not cover: price lists, or what a quirk means in detail (quirks, json_actions, streaming). litellm
decides when it is imported whether it fetches price tables from the network, and reads that from the process's
environment: `load` writes those variables, for the whole process. Nothing here reads the environment; litellm itself
does, for keys that it was not given.
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
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from d2k_agent.config import ModelOptions
from d2k_agent.models import json_actions
from d2k_agent.models.caching import CachePlanner, rules_of
from d2k_agent.models.faults import Judge, Mask
from d2k_agent.models.keys import no_key
from d2k_agent.models.litellm_data import cost_map, known_names, no_provider
from d2k_agent.models.parameters import not_as_wished, parameters_of
from d2k_agent.models.price_lists import ModelNames, PriceFile, map_row, snapshot_row
from d2k_agent.models.prices import PriceRow, cost_usd
from d2k_agent.models.protocol import CachePlan, Message, ModelReply, replies_so_far
from d2k_agent.models.quirks import JSON_SCHEMA, NATIVE, OPTIONS, Quirks, QuirksFile, find_quirks
from d2k_agent.models.retry import RetryPolicy, ask_with_retry
from d2k_agent.models.served import served_context_tokens
from d2k_agent.models.streaming import whole_reply
from d2k_agent.models.ttl import ONE_HOUR_S
from d2k_agent.models.usage import Usage, usage_from_report

_ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "HF_HUB_OFFLINE": "1",
    "LITELLM_MODE": "PRODUCTION",  # else it puts a .env that nobody named into the environment: keys, addresses
    "USE_LITELLM_PROXY": "False",
}
_SAME_PRICE = 1e-9
"""Relative: litellm adds up in binary fractions."""


@dataclass
class _Exchange:
    """What really went over the wire: the body of a request, and the text of the answer (empty for a stream)."""

    body: dict[str, Any] = field(default_factory=dict)
    answer: str = ""


_EXCHANGE: ContextVar[_Exchange | None] = ContextVar("exchange", default=None)
"""That of the request that is being made."""


class LiteLLMModel:
    """One model of one provider.

    `keys` maps names of variables to keys (as an environment does); they go to the provider alone, and are masked in
    every text that leaves. `wait`, `jitter` and `clock` are seams for tests; `notice` is given a line before each wait,
    `watch` the body of each request that was answered, as it left.
    `gaps_s` are the seconds between requests of the conversation that earlier processes made, `usages` what those took.
    Replies are priced by `price`, which `find_price` finds; without one, their cost is unknown. `quirks` are what the
    table that ships says, unless others are given.
    Raises UsageError when the name is no model's or a key is missing.
    """

    def __init__(
        self,
        name: str,
        options: ModelOptions | None = None,
        keys: Mapping[str, str] | None = None,
        *,
        price: PriceRow | None = None,
        quirks: Quirks | None = None,
        gaps_s: Sequence[float] = (),
        usages: Sequence[Usage] = (),
        policy: RetryPolicy | None = None,
        wait: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
        notice: Callable[[str], None] = lambda line: None,
        watch: Callable[[Mapping[str, Any]], None] = lambda body: None,
    ) -> None:
        self.name = name
        self._options = options or ModelOptions()
        self._price = price
        self._policy = policy or RetryPolicy()
        self._wait, self._jitter, self._clock, self._notice = wait, jitter, clock, notice
        self._watch = watch
        self._told: set[str] = set()
        self._mask = Mask(keys or {})
        self._litellm = load()
        names = _names_of(self._litellm, name)
        self._provider, self._bare = names.provider or "", names.bare
        self._quirks = quirks or find_quirks(names)
        rules = rules_of(self._provider, marks=self._quirks.cache_marks, own_server=bool(self._options.api_base))
        self._planner = CachePlanner(rules, price, gaps_s, usages)
        self._api_key, key_names = self._find_key(keys or {})
        server = self._mask(self._options.api_base or "") or None
        quirks, sent = self._quirks, tuple(option for option in self._wishes() if option not in self._quirks.leave_out)
        self._judge = Judge(
            name, key_names, server, self._mask, self._policy.way_on, sent, quirks.leave_out, quirks.stream
        )

    def complete(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> ModelReply:
        """The next reply. Asks again where a failure may pass; see Model for what is raised otherwise."""
        began, exchange = self._clock(), _Exchange()
        plan = self._planner.plan(messages, began)
        if plan.why and plan.gap_s is not None:
            self._notice(f"{self.name}: cache entries live {plan.why}")
        request = self._request(messages, tools, plan)
        answer = ask_with_retry(
            lambda: self._ask(request, exchange), self._judge, self._policy, self._wait, self._jitter, self._notice
        )
        self._watch(exchange.body)
        choice = answer.value.choices[0] if answer.value.choices else None
        message, usage = _whole_message(choice), self._usage(answer.value, exchange.answer)
        self._planner.note(usage)
        if self._quirks.calls != NATIVE:
            message = json_actions.with_calls(message, replies_so_far(messages) + 1)
        parameters = self._parameters(exchange.body)
        return ModelReply(
            message=message,
            finish_reason=choice and choice.finish_reason,
            usage=usage,
            cost_usd=self._cost_usd(answer.value, usage),
            parameters=parameters,
            not_as_wished=self._tell_dropped(parameters),
            seconds=self._clock() - began,
            attempts=answer.attempts,
            unknown_attempts=answer.unknown_attempts,
            cache=plan,
        )

    def served_context_tokens(self) -> int | None:
        """The context window that the server named by the options says, None where it says none or none is named."""
        base = self._options.api_base
        return None if not base else served_context_tokens(base, self._bare, self._api_key)

    def _ask(self, request: Mapping[str, Any], exchange: _Exchange) -> Any:
        """One attempt. `exchange` is filled with what goes over the wire, once it does."""
        exchange.answer = ""
        token = _EXCHANGE.set(exchange)
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Pydantic serializer warnings")  # of an answer of an unusual form
                answer = self._litellm.completion(**request)
                return whole_reply(answer, self._litellm.stream_chunk_builder) if self._quirks.stream else answer
        except Exception:  # litellm raises anything for an answer that it cannot read, a bare Exception too
            uncounted = self._uncounted(exchange.answer)
            if uncounted is None:
                raise
            return uncounted
        finally:
            _EXCHANGE.reset(token)

    def _uncounted(self, answer: str) -> Any | None:
        """A chat completion without its usage, which litellm could not read; None where that was not all.

        A reply was made and paid for: it is kept, and what it took is unknown.
        """
        try:
            body = json.loads(answer)
            del body["usage"]
            response = self._litellm.utils.convert_to_model_response_object(body, self._litellm.ModelResponse())
        except Exception:  # noqa: BLE001 - the answer may be anything; the first error is the one told
            return None
        response.usage = None
        return response

    def _tell_dropped(self, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        told = not_as_wished(self._wishes(), parameters)
        for sentence in told:
            if sentence not in self._told:
                self._notice(f"{self.name}: {sentence}")
        self._told.update(told)
        return told

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
            raise no_key(self.name, wanted)
        return key, names

    def _missing(self, **given: str | None) -> list[str]:
        found = self._litellm.validate_environment(self.name, api_base=self._options.api_base, **given)
        return [] if found["keys_in_environment"] else list(found["missing_keys"])

    def _wishes(self) -> dict[str, Any]:
        """The options that were given, as they were."""
        given = {name: getattr(self._options, name) for name in OPTIONS}
        return {name: value for name, value in given.items() if value is not None}

    def _request(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], plan: CachePlan) -> dict[str, Any]:
        """Arguments of the call."""
        quirks = self._quirks
        wishes = {name: value for name, value in self._wishes().items() if name not in quirks.leave_out}
        request = {
            "model": self.name,
            "messages": json.loads(json.dumps(list(messages))),  # litellm changes what it is given; faster than copy
            "timeout": self._options.timeout_s,
            "max_retries": 0,
            "api_key": self._api_key,
            "api_base": self._options.api_base,
            "logger_fn": _note,
            **copy.deepcopy(quirks.send),
            **wishes,
        }
        if quirks.stream:
            request |= {"stream": True, "stream_options": {"include_usage": True}}
        if tools and quirks.calls == NATIVE:
            request["tools"] = [dict(tool) for tool in tools]
        elif tools:
            request["messages"] = json_actions.as_text(request["messages"], tools)
        if tools and quirks.calls == JSON_SCHEMA:
            request["response_format"] = json_actions.response_format(tools)
        if self._options.api_base:
            # The server's owner knows better than a table.
            request["allowed_openai_params"] = [*wishes, *quirks.send, *{"response_format"} & request.keys()]
        if plan.points:
            request["cache_control_injection_points"] = [
                {"location": "message", "index": at, "control": _control(plan.ttl_s)} for at in plan.points
            ]
        return request

    def _usage(self, response: Any, answer: str) -> Usage:
        uncounted = any(f'"{name}"' not in answer for name in self._quirks.counts) or _lacks_a_count(answer)
        if uncounted and not self._quirks.stream:
            return Usage.unknown()
        report = getattr(response, "usage", None)
        report = report.model_dump() if report is not None else {}
        if not self._quirks.counts_reasoning:
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
        masked: dict[str, Any] = json.loads(self._mask(json.dumps(parameters_of(sent), default=str)))
        return masked


def find_price(
    name: str, options: ModelOptions, file: PriceFile | None = None, listed: Mapping[str, Any] | None = None
) -> PriceRow | None:
    """The prices that hold for a model: those of `file`, else of a snapshot that ships, else of litellm's table.

    `listed` is that table where models were registered with litellm, None for the one in its package's files.
    None where none is known; a server that `options` name has the prices of a file or none. Loads litellm only where
    nothing else knows the name. Raises UsageError when it is no model's, or when `file` has no row for it.
    """
    if file is None and options.api_base:
        return None
    names = known_names(name) or _names_of(load(), name)
    if file is not None:
        return file.row(names)
    return snapshot_row(names) or map_row(listed or cost_map() or load().model_cost, names, _map_version())


@cache
def _map_version() -> str:
    return f"LiteLLM {importlib.metadata.version('litellm')}"


def provider_of(name: str) -> str | None:
    """The provider that a model's name means. Raises UsageError when it is no model's."""
    return (known_names(name) or _names_of(load(), name)).provider


def quirks_of(name: str, users: QuirksFile | None = None) -> Quirks:
    """What the tables say of a model. Raises UsageError when the name is no model's."""
    return find_quirks(known_names(name) or _names_of(load(), name), users)


def context_tokens(name: str, options: ModelOptions, quirks: Quirks) -> int | None:
    """The model's context window in tokens: its row's, else that of litellm's list; None where neither knows.

    A server that `options` name may have cut it down, so that the list says nothing of it.
    """
    if quirks.context_tokens is not None or options.api_base:
        return quirks.context_tokens
    litellm = load()
    try:
        listed = litellm.get_model_info(name).get("max_input_tokens")
    except Exception:  # noqa: BLE001 - litellm raises a bare Exception for a model that it does not list
        return None
    return listed if isinstance(listed, int) else None


def _names_of(litellm: Any, name: str) -> ModelNames:
    try:
        bare, provider, *_ = litellm.get_llm_provider(name)
    except litellm.exceptions.BadRequestError:
        raise no_provider(name) from None
    return ModelNames(name, str(provider), str(bare))


def _control(ttl_s: int) -> dict[str, str]:
    """A mark; five minutes are what an entry lives when nothing is said."""
    return {"type": "ephemeral", "ttl": "1h"} if ttl_s >= ONE_HOUR_S else {"type": "ephemeral"}


def _whole_message(choice: Any) -> Message:
    """Everything the model said, thinking blocks and signatures included; an empty reply where no choice came.

    Nothing is repaired here: what is wrong with calls and ids is for the loop to see, to record and to answer.
    """
    said: Message = choice.message.model_dump(exclude_none=True) if choice else {}
    return {"role": "assistant", "content": "", **said}


def _lacks_a_count(answer: str) -> bool:
    """Whether a chat completion counts one side of the exchange and not the other, for which litellm puts 0."""
    try:
        report = json.loads(answer)["usage"]
        counts = [report.get(name) for name in ("prompt_tokens", "completion_tokens")]
    except (ValueError, LookupError, TypeError, AttributeError):
        return False
    return counts.count(None) == 1


def _note(details: Mapping[str, Any]) -> None:
    """Called by litellm for every request that leaves and every answer, in the thread that asked for it."""
    exchange, body = _EXCHANGE.get(), (details.get("additional_args") or {}).get("complete_input_dict")
    if exchange is None:
        return
    if isinstance(body, (str, bytes)):
        body = json.loads(body)
    if isinstance(body, Mapping):
        exchange.body = dict(body)
    answer = details.get("original_response")
    if isinstance(answer, str) and not exchange.answer:  # what follows it is litellm's own word on an error
        exchange.answer = answer


@cache
def load() -> Any:
    """litellm, told to fetch nothing and to print nothing of its own."""
    os.environ.update(_ENVIRONMENT)
    import litellm

    litellm.suppress_debug_info = True
    litellm.disable_streaming_logging = True
    litellm.input_callback = [_note]
    logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
    return litellm
