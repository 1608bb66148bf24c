"""Group E06: an edit changes the passage and no other byte."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from d2k_agent.sandbox import Sandbox
from tests.sandbox.boxes import WALLS, unavailable
from tests.tools.conftest import Call

CASES = Path(__file__).parent / "cases"
EDITS = json.loads((CASES / "E06_edits.json").read_text("utf-8"))


@pytest.fixture
def wall() -> str:
    """One class is enough here: what an edit does to a file has nothing to do with the wall."""
    working = [kind for kind in reversed(WALLS) if not unavailable(kind)]
    return working[0] if working else pytest.skip("no sandbox on this machine")


@pytest.fixture
def workspace(box: Sandbox) -> Path:
    shutil.copytree(CASES / "E06_files", box.workspace, dirs_exist_ok=True)
    return box.workspace


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("name", EDITS["expected_sha256"])
def test_line_ends_and_marks_stay(call: Call, workspace: Path, name: str) -> None:
    result = call("edit", path=name, old=EDITS["old"], new=EDITS["new"])
    assert result.status == "ok", result.text
    assert (workspace / name).stat().st_size == EDITS["expected_size"][name]
    assert digest(workspace / name) == EDITS["expected_sha256"][name]


@pytest.mark.parametrize(
    ("name", "old", "reason"),
    [
        ("lf.py", "not in the file", "not in the file"),
        ("lf.py", "\n", "occurs"),
        ("lf.py", "", "at least 1"),
        ("lf.py", "def run", "same text"),
        ("lf.py", "\ud83d", "surrogate"),
        ("tabs_trailing.py", "        x = 1", "not in the file"),
    ],
)
def test_refused_and_untouched(call: Call, workspace: Path, name: str, old: str, reason: str) -> None:
    before = digest(workspace / name)
    result = call("edit", path=name, old=old, new="def run" if old == "def run" else "")
    assert result.status == "error"
    assert reason in result.text
    assert digest(workspace / name) == before


def test_overlapping_places_are_ambiguous(call: Call, workspace: Path) -> None:
    (workspace / "a").write_text("aXaXa")
    assert "occurs 2 times (lines 1, 1)" in call("edit", path="a", old="aXa", new="b").text


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc", "b", "x\ny", b"a\r\nx\r\ny\r\nc"),
        (b"a\r\nb", "b", "x\ny", b"a\r\nx\r\ny"),
        (b"a\nb\r\n", "a", "x\ny", b"x\ny\nb\r\n"),
        (b"\na", "a", "x\ny", b"\nx\ny"),
        (b"a", "a", "x\ny", b"x\ny"),
        (b"caf\xe9 a", "a\n", "b\n", None),
        (b"\xff\xfe a", " a", " b", b"\xff\xfe b"),
        (b"a.b\naxb", "a.b", "\\1", b"\\1\naxb"),
        (b"x\r\ny\r\n", "x\r\ny\r\n", "z\r\n", b"z\r\n"),
    ],
)
def test_new_lines_end_as_their_neighbours(
    call: Call, workspace: Path, before: bytes, old: str, new: str, after: bytes | None
) -> None:
    (workspace / "file").write_bytes(before)
    result = call("edit", path="file", old=old, new=new)
    assert (workspace / "file").read_bytes() == (before if after is None else after), result.text


def test_permissions_of_an_edited_file_stay(call: Call, workspace: Path) -> None:
    (workspace / "lf.py").chmod(0o755)
    call("edit", path="lf.py", old="def", new="fed")
    assert (workspace / "lf.py").stat().st_mode & 0o777 == 0o755
    assert not list(workspace.glob(".*"))
