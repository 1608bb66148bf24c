"""What the supervisor makes of what a candidate's process sends."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from d2k_agent.contract import VerdictStatus
from d2k_agent.evaluator.candidate import describe
from d2k_agent.evaluator.process import Raised, crash_line, decode, raised


def sent(kinds: list[str], text: str) -> bytes:
    return json.dumps({"kinds": kinds, "text": text, "line": 3}).encode()


def test_a_brief_holds_no_words_of_the_candidate() -> None:
    fault = raised(sent(["Seen_0_25", "ValueError", "Exception"], "0.25"), "run() on smoke")
    assert fault.brief == "run() on smoke raised ValueError (solution.py line 3)"
    assert "Seen_0_25" in fault.message and fault.message.endswith(": 0.25")


def test_a_brief_says_that_a_kernel_was_out_of_bounds() -> None:
    fault = raised(sent(["OutOfBounds", "IndexError"], "kernel _k: a load, 4 bytes behind the end"), "run() on smoke")
    assert fault.brief == "run() on smoke raised OutOfBounds (solution.py line 3)"


def test_a_brief_of_what_is_no_tensor_is_fixed() -> None:
    fault = raised(sent(["TypeError"], "run() must return torch.Tensor, not tensor([0.25])"), "run() on smoke")
    assert (fault.status, fault.brief) == (VerdictStatus.INCORRECT, "run() must return torch.Tensor")
    assert "0.25" in fault.message


def test_what_the_interpreter_lacks_is_not_the_candidates_fault() -> None:
    problem = NotImplementedError("inline_asm not supported in interpreter mode")
    assert describe(problem)["text"].endswith("which lacks this: only a GPU can judge it")
    assert describe(ValueError("no such tile"))["text"] == "no such tile"


def test_what_was_done_before_an_exception_is_told_within_bounds() -> None:
    told = {"kinds": ["ValueError"], "text": "0.25", "line": 3, "foreign": "mm" + "x" * 100}
    fault = raised(json.dumps(told).encode(), "run() on smoke")
    assert isinstance(fault, Raised)
    assert fault.foreign.startswith("mm") and len(fault.foreign) == 64
    assert isinstance(nothing := raised(sent(["ValueError"], "0.25"), "run() on smoke"), Raised)
    assert nothing.foreign == ""


@pytest.mark.parametrize("payload", [b"[]", b'"text"', b"{}", b"1"])
def test_a_report_of_another_form_is_out_of_protocol(payload: bytes) -> None:
    assert raised(payload, "run() on smoke").status is VerdictStatus.ENDED_EARLY


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "Infinity"])
def test_a_number_that_is_none_is_refused(number: str) -> None:
    with pytest.raises(ValueError, match="no number"):
        decode(f'{{"seconds": [{number}]}}'.encode())


def test_a_finite_number_is_read() -> None:
    assert decode(b'{"a": 1e300, "b": [0.5, 3]}') == {"a": 1e300, "b": [0.5, 3]}


@pytest.mark.parametrize(
    ("told", "line"),
    [("", None), ('File "/x/solution.py", line 7 in run', 7), ('File "/x/solution.py", line 4000 in run', None)],
)
def test_a_crash_is_read_from_what_was_opened_before_there_was_a_candidate(
    tmp_path: Path, told: str, line: int | None
) -> None:
    path = tmp_path / "crash"
    with path.open("w+b") as file:
        path.write_text("Fatal Python error: Segmentation fault\n" + told)
        path.unlink()
        os.mkfifo(path)  # whoever opened it by its name now would wait for ever
        assert crash_line(file, "pass\n" * 10) == line
