"""run.json: what a run is. Written once when the run begins; what happens in it stands in the event log."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from d2k_agent.config import RunConfig
from d2k_agent.contract.ceilings import Ceilings
from d2k_agent.models import PriceRow, Quirks

FORMAT = 1


class RunRecord(BaseModel):
    """One run's identity and circumstances.

    `workloads` are the labels of every registered workload: a candidate is eligible when it was measured on all of
    them. `baseline_sha256` names the source that its speedups are over, None where the task has none. `staged` maps the
    names of the files that the agent was given to their sha256. `price` is what the run's replies are priced by
    to its end, None where no price was known. `quirks` is how its model is asked, None in runs that recorded none.
    `ceilings` are what was known of GPUs when it began, for a stopping policy that compares with floors.
    `origin` is a sentence on what the record was put together from, None where it is of a run as it happened.
    `isolation` is the class of the tools' sandbox and its details.
    `versions` names what decides results (d2k-agent, python, torch, triton ...).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = FORMAT
    run_id: str
    created: datetime = Field(default_factory=lambda: datetime.now(UTC))
    config: RunConfig
    task_slug: str
    task_digest: str
    workloads: tuple[str, ...]
    baseline_sha256: str | None = None
    staged: dict[str, str] = {}
    price: PriceRow | None = None
    quirks: Quirks | None = None
    ceilings: tuple[Ceilings, ...] = ()
    origin: str | None = None
    isolation: dict[str, Any] = {}
    versions: dict[str, str] = {}

    @property
    def arm(self) -> str | None:
        """The run's arm of a study, None outside of one."""
        return self.config.arm

    @property
    def pair(self) -> str | None:
        """The pair of runs that differ in guidance alone, None outside of one."""
        return self.config.pair

    @property
    def replicate(self) -> int | None:
        """The repetition's number, None outside of a study."""
        return self.config.replicate
