"""What a model can do, as text and as data: findings, and what to set where something is missing."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any

from d2k_agent.contract.wording import counted
from d2k_agent.models import BUCKETS, PriceRow, Quirks, Usage
from d2k_agent.models.checking import CACHE, SECOND_TURN, Checked
from d2k_agent.models.quirks import JSON_SCHEMA, JSON_TEXT, NATIVE
from d2k_agent.reports.tables import UNKNOWN, at_least, count

_CALLS = {
    NATIVE: "native",
    JSON_SCHEMA: "by JSON actions, whose schema the provider enforces",
    JSON_TEXT: "by JSON actions, in a form that nobody enforces",
}
_LEFT = 20
_MODELS_FILE = "in ~/.config/d2k-agent/models.toml, or a file that --models-file names"


@dataclass(frozen=True)
class ModelCheck:
    """One model. `quirks` is what the tables say of it, `checked` what was found; unknown is None.

    `context_source` says who named the context window.
    """

    model: str
    server: str | None
    quirks: Quirks
    checked: Checked
    price: PriceRow | None
    context_tokens: int | None
    context_source: str | None

    @property
    def usable(self) -> bool:
        """True when the loop can work with the model: tools can be called in some way."""
        return self.checked.calls is not None

    @property
    def seconds(self) -> float:
        """How long the calls took that were answered, waits between their attempts included; no loading of LiteLLM."""
        return sum(reply.seconds for reply in self.checked.replies)


def model_check_text(check: ModelCheck) -> str:
    """A line a finding, then what to set."""
    head = check.model + (f" at {check.server}" if check.server else "")
    lines = [f"{name:{_LEFT}} {words}" for name, words in _findings(check).items()]
    advice = _advice(check)
    if not advice:
        return "\n".join((head, *lines, "", "Nothing needs to be set."))
    return "\n".join((head, *lines, "", "To set:", *advice))


def model_check_data(check: ModelCheck) -> dict[str, Any]:
    """The same as one object. `row` is what a models file should say of the model.

    `replies_with_all_buckets` of the `calls` replies were counted whole; with fewer, `usage` is a lower bound.
    """
    checked, usages = check.checked, [reply.usage for reply in check.checked.replies]
    read, of = checked.cache_read_of or (None, None)
    return {
        "model": check.model,
        "server": check.server,
        "usable": check.usable,
        "tool_calls": checked.calls,
        "parallel_calls": checked.parallel,
        "reasoning_seen": any(usage.reasoning for usage in usages) or checked.reasoning_kept is not None,
        "reasoning_kept": checked.reasoning_kept,
        "buckets_reported": [name for name in BUCKETS if any(getattr(usage, name) is not None for usage in usages)],
        "replies_with_all_buckets": sum(usage.known for usage in usages),
        "cache_read_tokens": read,
        "cache_read_of_tokens": of,
        "price": None if check.price is None else {"source": check.price.source, "date": check.price.date},
        "context_tokens": check.context_tokens,
        "parameters": _last_parameters(checked),
        "not_as_wished": sorted({told for reply in checked.replies for told in reply.not_as_wished}),
        "refusals": checked.refusals,
        "row": _row(check),
        "findings": _findings(check),
        "to_set": _advice(check),
        "calls": len(checked.replies),
        "usage": {name: _sum(usages, name) for name in BUCKETS},
        "usage_lower_bound": not all(usage.known for usage in usages),
        "cost_usd": _cost_usd(checked),
        "seconds": round(check.seconds, 3),
    }


def _findings(check: ModelCheck) -> dict[str, str]:
    checked = check.checked
    window = check.context_tokens
    found = {
        "reachable": f"yes, {counted(len(checked.replies), 'reply', 'replies')} in {check.seconds:.1f} s",
        "tool calls": _tool_calls(checked),
        "parallel calls": _parallel(checked),
        "reasoning": _reasoning(checked),
        "usage": _usage(checked),
        "cache": _cache(checked),
        "price": _price(check.price),
        "context window": UNKNOWN if window is None else f"{count(window)} tokens, says {check.context_source}",
        "parameters sent": _said(_last_parameters(checked)),
    }
    told = sorted({sentence for reply in checked.replies for sentence in reply.not_as_wished})
    if told:
        found["not as given"] = "; ".join(told)
    usages = [reply.usage for reply in checked.replies]
    found["this check"] = _own(usages, _cost_usd(checked))
    return found


def _own(usages: list[Usage], cost: float | None) -> str:
    """What the check itself took."""
    inputs = [_sum(usages, name) for name in (*BUCKETS[:-1], "unsplit_input")]
    tokens = sum(number or 0 for number in inputs) if any(number is not None for number in inputs) else None
    into = at_least(count(tokens), any(usage.input_tokens is None for usage in usages))
    out = at_least(count(_sum(usages, "output")), any(usage.output is None for usage in usages))
    return f"{into} tokens in, {out} out, cost {UNKNOWN if cost is None else f'US$ {cost:.4f}'}"


def _tool_calls(checked: Checked) -> str:
    first = checked.refusals.get(NATIVE)
    if checked.calls is None:
        return "none in any way: " + "; ".join(dict.fromkeys(checked.refusals.values()))
    return _CALLS[checked.calls] + (f" (natively: {first})" if first else "")


def _parallel(checked: Checked) -> str:
    if checked.parallel is None:
        failed = checked.refusals.get(SECOND_TURN)
        return UNKNOWN + (f": {failed}" if failed else "")
    if checked.calls != NATIVE and not checked.parallel:
        return "one call a reply, as JSON actions are"
    return "yes" if checked.parallel else "no: one call a reply, so each takes a turn of its own"


def _reasoning(checked: Checked) -> str:
    counts = [reply.usage.reasoning for reply in checked.replies if reply.usage.reasoning]
    seen = f"{count(sum(counts))} tokens counted" if counts else "none counted"
    if SECOND_TURN in checked.refusals:
        return f"{seen}; whether it goes back is unknown"
    if checked.reasoning_kept is None:
        return f"{seen}, none in the replies"
    return f"{seen}; {'goes back with the next request' if checked.reasoning_kept else 'is lost between turns'}"


def _usage(checked: Checked) -> str:
    usages = [reply.usage for reply in checked.replies]
    whole = sum(usage.known for usage in usages)
    if whole:
        return "all four buckets" + (f" in {whole} of {len(usages)} replies" if whole < len(usages) else "")
    counted_replies = sum(usage.output is not None for usage in usages)
    if counted_replies:
        few = f" in {counted_replies} of {len(usages)} replies" if counted_replies < len(usages) else ""
        return f"input and output{few}, and not how much of the input came from a cache"
    return "none reported"


def _cache(checked: Checked) -> str:
    if checked.cache_read_of is None:
        return "unknown, since nobody counts what is read from it"
    read, of = checked.cache_read_of
    if read:
        return f"seen: {count(read)} of {count(of)} input tokens were read from it"
    return checked.refusals.get(CACHE) or f"not seen in requests of up to {count(of)} tokens"


def _price(price: PriceRow | None) -> str:
    if price is None:
        return UNKNOWN
    rates, dated = price.rates, f", {price.date}" if price.date else ""
    return f"US$ {rates.uncached_input} in, {rates.output} out a million tokens ({price.source}{dated})"


def _row(check: ModelCheck) -> dict[str, Any]:
    """What a models file should say beyond what the tables say already."""
    row: dict[str, Any] = {}
    if check.usable and check.checked.calls != check.quirks.calls:
        row["calls"] = check.checked.calls
    if check.context_source == "the server's list":
        row["context_tokens"] = check.context_tokens
    return row


def _advice(check: ModelCheck) -> list[str]:
    lines = []
    row = _row(check)
    if row:
        lines.append(f"- {_MODELS_FILE}:")
        lines.append(f"    [{json.dumps(check.model)}]")
        lines += [f"    {name} = {json.dumps(value)}" for name, value in row.items()]
    if check.context_tokens is None:
        where = "there too" if row else f"below [{json.dumps(check.model)}] {_MODELS_FILE}"
        lines.append(
            f"- {where}, once you know it, so that an efficient run shortens old results in time: "
            "context_tokens = NUMBER"
        )
    if not check.usable:
        lines.append("- nothing helps: the model calls no tool in any way, so take another one")
    if check.price is None:
        lines.append(f"- --price-file FILE with a row for {check.model}: without one dollars stay unknown")
    if _usage(check.checked) == "none reported":
        lines.append(
            "- at the server: have it report usage; until then tokens are unknown, and no budget of them holds"
        )
    if check.checked.reasoning_kept is False:
        lines.append("- nothing here: this API takes no reasoning back, so the model thinks anew in each turn")
    return lines


def _said(parameters: dict[str, Any]) -> str:
    return ", ".join(f"{name}={json.dumps(value)}" for name, value in parameters.items() if name != "model") or "none"


def _last_parameters(checked: Checked) -> dict[str, Any]:
    """Of the last request, without the schema of JSON actions, which is the loop's own."""
    last = checked.replies[-1].parameters if checked.replies else {}
    return {name: value for name, value in last.items() if name != "response_format"}


def _sum(usages: list[Usage], name: str) -> int | None:
    known = [value for usage in usages if (value := asdict(usage)[name]) is not None]
    return sum(known) if known else None


def _cost_usd(checked: Checked) -> float | None:
    costs = [reply.cost_usd for reply in checked.replies]
    known = [Decimal(repr(cost)) for cost in costs if cost is not None]
    return float(sum(known, Decimal())) if known and len(known) == len(costs) else None
