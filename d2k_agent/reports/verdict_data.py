"""A verdict as the JSON object that scripts read."""

from __future__ import annotations

from typing import Any

from d2k_agent.contract import Verdict
from d2k_agent.contract.wire import finite, to_data


def verdict_data(verdict: Verdict) -> dict[str, Any]:
    """Return the verdict's fields with `eligible` beside `status`. JSON has no NaN: such a value is null.

    Scripts may rely on `status`, `eligible`, `violations` (each `check`, `message`), `workloads` (each `label`,
    `status`, `checks`, `mean_ms`, `speedup`, `rel_norm`, and in `measurement` and `baseline` the clocks),
    `geomean_speedup`, `baseline_sha256`, `drift` and `environment`.
    """
    data: dict[str, Any] = finite(to_data(verdict))
    return {"status": data.pop("status"), "eligible": verdict.eligible, **data}
