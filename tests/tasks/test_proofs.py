"""Tasks with wrong kernels are proved whole: expert and baseline pass, each wrong kernel fails where it must."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from d2k_agent.app.proving import proofs_of
from d2k_agent.app.surroundings import here
from d2k_agent.catalog import list_tasks, wrong_kernels

pytestmark = pytest.mark.proof

TASKS = [task for task in list_tasks() if wrong_kernels(task)]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.slug)
def test_experts_pass_with_room_and_every_wrong_kernel_fails_at_its_gate(task: object) -> None:
    findings = {finding.check: finding for finding in proofs_of(here(), task, lambda _: None)}  # type: ignore[arg-type]
    assert set(findings) == {"proof", "compiles", "expert", "baseline", "wrong kernels"}
    assert {name: finding.message for name, finding in findings.items() if not finding.passed} == {}
    assert findings["wrong kernels"].seen.count(" in try ") <= 2, "an evaluator that needs luck is none"
