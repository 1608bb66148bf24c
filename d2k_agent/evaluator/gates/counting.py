"""Counters that every call adds to."""

from __future__ import annotations

import torch

from d2k_agent.evaluator.gates.base import Compared, Found


def counter(compared: Compared) -> Found:
    """The largest difference of a counter from its start plus, for each call, how often the ids of `counts` name it.

    `counts` is another output, whose ids were the same in every call; negative ones are not counted. Integers wrap.
    `rows` are those of the counter: which of its elements are judged.
    """
    before, after = compared.answer.before[compared.name], compared.answer.values[compared.name]
    named = compared.answer.values[compared.gate["counts"]].reshape(-1).long()
    size = before.numel()
    visits = torch.bincount(named[(named >= 0) & (named < size)], minlength=size).reshape(before.shape)
    wanted = (before.long() + compared.answer.calls * visits).to(before.dtype)
    off = (after.long() - wanted.long()).abs()
    if compared.rows is not None:
        off[~compared.rows] = 0
    value = float(off.max()) if size else 0.0
    if value == 0.0:
        return value, 0.0, True, ""
    first = int(torch.nonzero(off.reshape(-1))[0])
    got, right = (int(tensor.reshape(-1)[first] - before.reshape(-1)[first]) for tensor in (after, wanted))
    calls = compared.answer.calls
    told = f"element {first} changed by {got} in {calls} call{'s' * (calls != 1)}, {right} is what was counted"
    return value, 0.0, False, told
