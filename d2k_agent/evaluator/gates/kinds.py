"""The gate kinds that there are, and what a task says to use one."""

from __future__ import annotations

from d2k_agent.evaluator.gates.base import EXTENTS, NUMBER, SHARE, SWITCH, Kind
from d2k_agent.evaluator.gates.counting import counter
from d2k_agent.evaluator.gates.elements import allclose_share, close, exact
from d2k_agent.evaluator.gates.norms import rel_norm, slice_norm
from d2k_agent.evaluator.gates.selection import selected

GATES: dict[str, Kind] = {
    "rel_norm": Kind(rel_norm, numbers=("limit",)),
    "slice": Kind(slice_norm, numbers=("limit",), optional={"floor": NUMBER, "block": EXTENTS}),
    "row_norm": Kind(slice_norm, numbers=("limit",)),
    "close": Kind(close, numbers=("atol", "rtol"), optional={"share": SHARE}),
    "allclose_share": Kind(allclose_share, numbers=("atol", "rtol"), optional={"limit": NUMBER}),
    "exact": Kind(exact, optional={"limit": NUMBER}),
    "set": Kind(selected, numbers=("margin",), optional={"limit": NUMBER, "ordered": SWITCH}, functions=("scores",)),
    "counter": Kind(counter, outputs=("counts",), general=("rows",)),
}
"""By the name that a task uses. `row_norm` is `slice` over rows, `allclose_share` is `close` told as a share."""
