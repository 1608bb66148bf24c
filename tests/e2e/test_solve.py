"""`d2k-agent solve tasks/muon` from the shell to the last line: scripted replies, everything else real."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from d2k_agent.records import Measured, Modelled, ToolFinished, Trace, VerdictReached, read_trace
from tests.cli.runs import call, script
from tests.cli.shell import ROOT, Answer, d2k

CORRECT = (ROOT / "guidance" / "muon" / "expert.py").read_text(encoding="utf-8")
BY_TORCH = """\
import torch


def run(G, steps=5):
    return torch.matmul(G, torch.matmul(G.mT, G))
"""
ZEROS = """\
import torch
import triton
import triton.language as tl


@triton.jit
def _zero(out, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.zeros((BLOCK,), tl.bfloat16), mask=offsets < count)


def run(G, steps=5):
    if steps != 5:
        raise ValueError("steps must be 5")
    out = torch.empty_like(G)
    _zero[(triton.cdiv(out.numel(), 1024),)](out, out.numel(), BLOCK=1024)
    return out
"""


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Answer, Trace, Path]:
    """A guided run of four turns: a look around, a forbidden solution, a wrong one, a correct one."""
    folder = tmp_path_factory.mktemp("solve")
    look = call("bash", command="ls; python3 -c 'import triton; print(triton.__version__)'")
    turns = [look, *(_handed_in(source) for source in (BY_TORCH, ZEROS, CORRECT))]
    model = script(folder, *turns)
    answer = d2k("solve", "muon", "--levels", "L1,L2", "--model", model, "--run-dir", "run", folder=folder, limit_s=580)
    assert answer.status == 0, answer
    return answer, read_trace(folder / "run"), folder / "run"


def _handed_in(source: str) -> dict:
    reply = call("write", path="solution.py", content=source)
    return {**reply, "tool_calls": [*reply["tool_calls"], {"name": "submit", "arguments": {}}]}


Solved = tuple[Answer, Trace, Path]
pytestmark = pytest.mark.proof


def test_each_submission_got_its_verdict(solved: Solved) -> None:
    _, trace, _ = solved
    verdicts = [event.verdict.status.value for event in trace.events if isinstance(event, VerdictReached)]
    assert verdicts == ["rule_violation", "incorrect", "untimed"]


def test_the_last_correct_candidate_is_provisional_and_nothing_is_selected(solved: Solved) -> None:
    _, trace, run = solved
    finished = trace.finished
    assert finished is not None and finished.selection is None and finished.provisional is not None
    assert finished.provisional.turn == 4
    assert finished.provisional.sha256 == hashlib.sha256(CORRECT.encode()).hexdigest()
    assert (run / "candidates" / f"{finished.provisional.sha256}.py").read_text(encoding="utf-8") == CORRECT


def test_without_a_gpu_nothing_was_measured(solved: Solved) -> None:
    _, trace, _ = solved
    assert not [event for event in trace.events if isinstance(event, Measured)]
    (modelled,) = (event.modelled for event in trace.events if isinstance(event, Modelled))
    assert modelled.geomean_ms is not None and trace.submissions[-1].geomean_speedup is None
    assert trace.finished and trace.finished.provisional
    assert trace.finished.provisional.modelled_ms == pytest.approx(modelled.geomean_ms)
    assert trace.totals.cost_usd is None and trace.totals.usage.output is None


def test_the_model_read_what_was_wrong_and_why_nothing_is_ranked(solved: Solved) -> None:
    _, trace, _ = solved
    forbidden, wrong, right = (e.text for e in trace.events if isinstance(e, ToolFinished) and e.name == "submit")
    assert forbidden.startswith("rule_violation") and "line 5, " in forbidden
    assert wrong.startswith("incorrect\n") and "(limit 0.012)" in wrong
    assert right.startswith("untimed: correct") and "\n\ncompiles for b200" in right
    assert (
        "`untimed` is correct, but candidates ran on a CPU here: no latency, no rank" in trace.messages()[1]["content"]
    )


def test_the_screen_tells_turns_outcome_tokens_and_where_to_look(solved: Solved) -> None:
    answer, _, run = solved
    rows = [line.split() for line in answer.out.splitlines()]
    assert answer.out.startswith("d2k-agent: solving muon\n")
    assert ["1", "bash", "ok"] in [row[:3] for row in rows]
    assert ["4", "write,", "submit", "untimed", "1", "correct", "unknown"] in [row[:7] for row in rows]
    assert "Selection: none (nothing was measured; modelled for b200, the provisional one is" in answer.out
    assert f"Provisional, ranked by a model alone: turn 4, {run.name}/candidates/" in answer.out
    assert " (geometric mean), not measured" in answer.out
    assert ["output", "unknown"] in rows and ["cost", "in", "US$", "unknown"] in rows
    assert f"d2k-agent trace show {run.name}" in answer.out


def test_the_workspace_holds_the_shared_files_the_guidance_asked_for_and_the_agents_own(solved: Solved) -> None:
    _, trace, run = solved
    files = {path.name for path in (run / "workspace").iterdir()}
    assert files == set(trace.run.staged) and "guidance.json" in files
    guidance = (run / "workspace" / "guidance.json").read_text(encoding="utf-8")
    assert "level_2_dataflow_design" in guidance and "level_3_low_level_optimization_tricks" not in guidance


def test_the_record_names_no_folder_of_this_machine_beside_its_own(solved: Solved) -> None:
    _, _, run = solved
    for name in ("run.json", "events.jsonl"):
        assert str(ROOT) not in (run / name).read_text(encoding="utf-8"), name
