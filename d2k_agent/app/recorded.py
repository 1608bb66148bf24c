"""What a recorded run may decide for the command that takes it up: its folder may be a stranger's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from d2k_agent.contract import source_sha256
from d2k_agent.errors import UsageError

if TYPE_CHECKING:
    from d2k_agent.catalog import Task
    from d2k_agent.records import RunRecord


def require_same_task(record: RunRecord, task: Task) -> None:
    """Raise UsageError where `task` or its baseline is not what the run began with."""
    if task.bundle().digest != record.task_digest:
        raise UsageError(f"{task.slug} has changed since {record.run_id} began; restore its files or start a new run")
    if record.baseline_sha256 not in (None, baseline_sha256(task)):
        raise UsageError(
            f"the baseline of {task.slug} has changed since {record.run_id} began, and speedups over two baselines are "
            "not to be mixed; restore it or start a new run"
        )


def baseline_sha256(task: Task) -> str | None:
    """The source that speedups at the task are over, None where it has none."""
    baseline = task.baseline_text()
    return None if baseline is None else source_sha256(baseline)
