"""A verdict as the JSON object that scripts read, and back."""

from __future__ import annotations

from typing import Any

from d2k_agent.contract import Verdict
from d2k_agent.contract.wire import WireError, finite, from_data, to_data
from d2k_agent.contract.wording import apart


def verdict_data(verdict: Verdict) -> dict[str, Any]:
    """Return the verdict's fields with `eligible` beside `status`. JSON has no NaN: such a value is null.

    Scripts may rely on `status`, `eligible`, `violations` (each `check`, `message`), `workloads` (each `label`,
    `status`, `checks`, `mean_ms`, `speedup`, `rel_norm`, and in `measurement` and `baseline` the clocks),
    `geomean_speedup`, `baseline_sha256`, `drift` and `environment`.
    """
    data: dict[str, Any] = finite(to_data(verdict))
    return {"status": data.pop("status"), "eligible": verdict.eligible, **data}


def verdict_of(data: Any) -> Verdict:
    """The verdict that verdict_data() made `data` of. Raises WireError for whatever else it is.

    What JSON has no word for is None in it, and further lines of its texts are indented (apart()).
    """
    if not isinstance(data, dict):
        raise WireError(f"an object was expected, not {type(data).__name__}")
    try:
        told = apart({key: value for key, value in data.items() if key != "eligible"})
    except RecursionError:
        raise WireError("the verdict: its fields are nested too deeply") from None
    verdict = from_data(Verdict, told, "the verdict")
    if data.get("eligible") is not verdict.eligible:
        raise WireError("the verdict: `eligible` is missing, or contradicts the rest")
    return verdict
