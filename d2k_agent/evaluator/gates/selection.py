"""Selections: the ids of the best candidates of each row, where near scores may change places and equal ones not."""

from __future__ import annotations

import torch

from d2k_agent.evaluator.faults import TaskFault
from d2k_agent.evaluator.gates.base import Compared, Found, position

_PAIRS = 1 << 26
"""Comparisons of a chosen candidate with another that are held at a time."""


def selected(compared: Compared) -> Found:
    """The share of rows of ids [rows..., k] that are wrong, the best id first; -1 fills what is left of a row.

    A row is right if it is the reference's, or if it is a selection by the reference's scores whose places are filled
    by candidates within `margin` of the right ones. Equal scores leave no choice: the lower id wins. `scores` names a
    function of check.py: from the arguments of run() to a list of fp64 tensors [rows..., n], -inf for what may not be
    chosen; a row may be right by any of them. With `ordered` false the order within a row is free.
    """
    if not compared.expected.dim() or compared.expected.is_floating_point():
        raise TaskFault(f"hidden/workloads.json: gate set is for ids [rows..., k], which {compared.name} does not hold")
    ids, wanted = (tensor.reshape(-1, tensor.shape[-1]).long() for tensor in (compared.output, compared.expected))
    wrong = (ids != wanted).any(-1)
    differing = torch.nonzero(wrong).reshape(-1)
    if differing.numel():
        margin, ordered = float(compared.gate["margin"]), bool(compared.gate.get("ordered", True))
        for scores in _tables(compared):
            table = compared.select(scores).reshape(len(ids), -1)
            for rows in differing.split(max(1, _PAIRS // max(1, table.shape[1] * ids.shape[1]))):
                wrong[rows] &= ~_valid(ids[rows], wanted[rows] >= 0, table[rows].double(), margin, ordered)
    count = int(wrong.sum())
    value = count / len(ids) if len(ids) else 0.0
    if value <= compared.limit:
        return value, compared.limit, True, ""
    told = f"{count} of {len(ids)} rows are no selection by the reference's scores, the first is row {position(wrong)}"
    return value, compared.limit, False, told


def _tables(compared: Compared) -> list[torch.Tensor]:
    """The scores of check.py for the whole output. Raises TaskFault where they are none."""
    asked = compared.gate["scores"]
    tables = compared.ask(asked, list(compared.answer.arguments))
    rows = compared.answer.expected[compared.name].shape[:-1]
    for table in (isinstance(tables, (list, tuple)) and tables) or [None]:
        if not isinstance(table, torch.Tensor) or not table.is_floating_point() or table.shape[:-1] != rows:
            raise TaskFault(
                f"hidden/check.py: {asked} must return a list of fp64 tensors [{', '.join(map(str, rows))}, n], the "
                f"scores of the rows of {compared.name}"
            )
    return list(tables)


def _valid(ids: torch.Tensor, kept: torch.Tensor, scores: torch.Tensor, margin: float, ordered: bool) -> torch.Tensor:
    """Which rows of ids [rows, k] are selections by scores [rows, n] within the margin; `kept` are places to fill."""
    count = scores.shape[1]
    inside = torch.where(kept, (ids >= 0) & (ids < count), ids == -1).all(-1)
    safe = ids.clamp(0, count - 1)
    chosen = torch.zeros_like(scores).scatter_add_(1, safe, kept.to(scores.dtype))
    got = scores.gather(1, safe).masked_fill(~kept, -torch.inf)
    best = torch.full_like(got, -torch.inf)
    places = min(ids.shape[1], count)
    best[:, :places] = scores.topk(places).values
    placed = got if ordered else got.sort(descending=True).values
    near = (((placed - best).abs() <= margin) | ~kept).all(-1)
    return inside & near & (chosen <= 1).all(-1) & ~_broken_ties(safe, kept, got, scores, chosen > 0, ordered)


def _broken_ties(
    ids: torch.Tensor, kept: torch.Tensor, got: torch.Tensor, scores: torch.Tensor, chosen: torch.Tensor, ordered: bool
) -> torch.Tensor:
    """Rows in which a candidate stands before one of the same score and a lower id."""
    lower = torch.arange(scores.shape[1], device=ids.device) < ids[..., None]
    passed_over = (got[..., None] == scores[:, None, :]) & lower & ~chosen[:, None, :] & kept[..., None]
    broken = passed_over.flatten(1).any(-1)
    if ordered:
        both = kept[:, :, None] & kept[:, None, :]
        swapped = (got[:, :, None] == got[:, None, :]) & (ids[:, :, None] > ids[:, None, :]) & both
        broken |= swapped.triu(1).flatten(1).any(-1)
    return broken
