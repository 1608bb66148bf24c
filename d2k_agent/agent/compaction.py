"""Old tool results become a digest, many in one step: when that pays, and what it leaves.

Covers: the decision, in tokens counted here, and the shortened results. Does not cover: recording it or changing the
conversation (nodes, journal). Every shortening writes what stands behind it into the provider's cache anew, so results
are not shortened one by one as they age, but together: when carrying them has cost as much as writing anew will. Who
buys when the rent paid has reached the price never pays more than twice the least possible. A result to which one
points that stays whole stays whole, too, so that no pointer leads nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from d2k_agent.agent.repeats import POINTER, place_of, places_named
from d2k_agent.models import Message, PriceRow
from d2k_agent.models.tokens import count_message, count_tokens
from d2k_agent.models.ttl import USUAL, write_rate
from d2k_agent.records import Compacted, ModelReplied

KEPT_TURNS = 8
"""Results of the last turns stay whole: a model still works with them."""
MOST_CHARS = 160
MARK = " [shortened]"
UNSEEN = " [left out: it did not fit into your context; ask for a smaller part]"
"""Of a result that the model has not seen yet: to call the tool again in the same way would end the same way."""


@dataclass(frozen=True)
class Answered:
    """A tool result that stands whole in the conversation: the message at `index` (from 0) answers a call of `turn`.

    `name` is that of the tool.
    """

    index: int
    turn: int
    call_id: str
    name: str
    text: str


class Compactor:
    """Decides over one conversation. `price` is the model's row, None where none is known; `turns` the run's limit.

    Counts of tokens are kept, since a conversation is looked at before every request.
    """

    def __init__(self, price: PriceRow | None, turns: int) -> None:
        self._price = price
        self._turns = turns
        self._tokens: dict[str, tuple[int, int]] = {}
        self._named: dict[str, frozenset[str]] = {}
        self._of_messages: dict[int, tuple[Message, int]] = {}

    def planned(
        self, messages: Sequence[Message], answers: Sequence[Answered], call: int, turn: int, last: ModelReplied | None
    ) -> Compacted | None:
        """What to shorten before request `call` of turn `turn` (from 1), None where it does not pay.

        The reply before, `last`, says how long a request is and for how long entries are written, and so what they
        cost.
        """
        old = self._longer(answers, turn - KEPT_TURNS)
        if not old:
            return None
        saved = self._saved(old)
        carried = sum(self._saved([item]) * (turn - KEPT_TURNS - item.turn) for item in old)
        write, read = self._prices(messages, last)
        # Nobody knows how long a run lasts: it is expected to go on for as long as it has, within its limit.
        horizon = min(turn - 1, self._turns - turn + 1)
        rewritten = self._rewritten(messages, old)
        price = rewritten * (write - read)
        if read * min(carried, saved * horizon) < price:
            return None
        unit = "US$" if self._price is not None else "millions of uncached tokens' worth"
        why = (
            f"{_many(old, saved)}: carrying them since turn by turn cost {carried:,} x {read} = about "
            f"{carried * read / 1_000_000:.4f} {unit}, and about {horizon} more requests would cost {saved:,} x {read} "
            f"x {horizon} = about {saved * read * horizon / 1_000_000:.4f}; writing anew what stands behind them costs "
            f"{rewritten:,} x ({write} - {read}) = about {price / 1_000_000:.4f}"
        )
        return self._compacted(old, saved, rewritten, why, call, turn)

    def forced(
        self, messages: Sequence[Message], answers: Sequence[Answered], call: int, turn: int
    ) -> Compacted | None:
        """What to shorten after request `call` did not fit into the context, None where nothing is left to shorten.

        All but the last turn's results; where those are short already, the last turn's too, and they say why.
        """
        old, mark = self._longer(answers, turn - 1), MARK
        if not old:
            old, mark = self._longer(answers, turn), UNSEEN
        if not old:
            return None
        saved = self._saved(old)
        why = f"{_many(old, saved)}: the request did not fit into the model's context"
        return self._compacted(old, saved, self._rewritten(messages, old), why, call, turn, mark)

    def _longer(self, answers: Sequence[Answered], before_turn: int) -> list[Answered]:
        """The results of turns before `before_turn` that are longer than what would be left of them.

        Less those to which another one points that stays whole.
        """
        old = [item for item in answers if item.turn < before_turn and self._count(item)[0] > self._count(item)[1]]
        while True:
            left = {item.call_id for item in old}
            named = {place for item in answers if item.call_id not in left for place in self._names(item)}
            free = [item for item in old if place_of(item.name, item.turn) not in named]
            if len(free) == len(old):
                return old
            old = free  # what stays whole for another one's sake may point further back

    def _names(self, item: Answered) -> frozenset[str]:
        """The places to which a result points."""
        if item.call_id not in self._named:
            self._named[item.call_id] = places_named(item.text)
        return self._named[item.call_id]

    def _count(self, item: Answered) -> tuple[int, int]:
        """Tokens of a result whole and shortened."""
        if item.call_id not in self._tokens:
            self._tokens[item.call_id] = count_tokens(item.text), count_tokens(shortened(item.text))
        return self._tokens[item.call_id]

    def _saved(self, answers: Sequence[Answered]) -> int:
        return sum(whole - left for whole, left in map(self._count, answers))

    def _rewritten(self, messages: Sequence[Message], old: Sequence[Answered]) -> int:
        """Tokens behind the first change, once it is made."""
        first = min(item.index for item in old)
        return sum(self._of_message(index, messages[index]) for index in range(first, len(messages))) - self._saved(old)

    def _of_message(self, index: int, message: Message) -> int:
        known = self._of_messages.get(index)
        if known is None or known[0] is not message:
            known = self._of_messages[index] = message, count_message(message)
        return known[1]

    def _prices(self, messages: Sequence[Message], last: ModelReplied | None) -> tuple[Decimal, Decimal]:
        """What a million tokens cost that are not found in the cache, and that are."""
        tokens = None if last is None else last.usage.input_tokens
        if tokens is None:
            tokens = sum(self._of_message(index, message) for index, message in enumerate(messages))
        rates = USUAL if self._price is None else self._price.rates_at(tokens)
        write = write_rate(rates, None if last is None else last.cache)
        return write, write if rates.cache_read is None else rates.cache_read

    def _compacted(
        self, old: Sequence[Answered], saved: int, rewritten: int, why: str, call: int, turn: int, mark: str = MARK
    ) -> Compacted:
        results = {item.call_id: shortened(item.text, mark) for item in old}
        return Compacted(call=call, turn=turn, results=results, saved_tokens=saved, rewritten_tokens=rewritten, why=why)


def _many(old: Sequence[Answered], saved: int) -> str:
    return f"{len(old)} results, about {saved:,} tokens by our own count"


def shortened(text: str, mark: str = MARK) -> str:
    """A result's first line, which says how the call went, and `mark`; one that is no longer than that stays as it is.

    What a pointer stands for may be shortened as well, so none is left.
    """
    first = text.split("\n", 1)[0].split(POINTER, 1)[0][:MOST_CHARS]
    left = first + mark if first else mark.lstrip()
    return left if len(left) < len(text) else text


def without(message: Message, results: Mapping[str, str]) -> Message:
    """The message, a shortened result in place of a whole one."""
    left = results.get(str(message.get("tool_call_id"))) if message.get("role") == "tool" else None
    return message if left is None else {**message, "content": left}
