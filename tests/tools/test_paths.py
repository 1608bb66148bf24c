"""Group E01: read, write and edit reach the files of the workspace and no other, and never wait."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from d2k_agent.sandbox import Sandbox
from d2k_agent.toolbox import PathError, read_file
from d2k_agent.toolbox.inside.workspace_files import write_file
from tests.tools.conftest import Call

CASES = Path(__file__).parent / "cases"
PATHS = json.loads((CASES / "E01_paths.json").read_text("utf-8"))


@pytest.fixture
def base(box: Sandbox) -> Path:
    """The folder of traps around the sandbox's workspace."""
    base = box.workspace.parent
    subprocess.run(["sh", str(CASES / "E01_setup.sh"), str(base)], check=True, capture_output=True)
    return base


def tree(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def use(call: Call, base: Path, case: dict[str, Any]) -> Any:
    path = case["path"].replace("WS", str(base / "ws")).replace("BASE", str(base))
    return call(case["tool"], path=path, **({"content": "written"} if case["tool"] == "write" else {}))


@pytest.mark.parametrize("case", PATHS["must_refuse"], ids=lambda case: case["trap"])
def test_refused(call: Call, base: Path, case: dict[str, Any]) -> None:
    outside = tree(base / "outside")
    result = use(call, base, case)
    assert result.status == "error"
    assert "CANARY" not in result.text
    assert tree(base / "outside") == outside
    assert not Path("/dev/shm/d2k_case_E01").exists()


@pytest.mark.parametrize("case", PATHS["must_not_hang"], ids=lambda case: case["path"])
def test_no_waiting(call: Call, base: Path, case: dict[str, Any]) -> None:
    result = use(call, base, case)
    assert result.status == "error"
    assert result.seconds < 10


@pytest.mark.parametrize("case", PATHS["must_allow"], ids=lambda case: case["path"])
def test_allowed(call: Call, base: Path, case: dict[str, Any]) -> None:
    result = use(call, base, case)
    assert (result.status, "error" in result.text) == ("ok", False)


def test_what_a_command_has_closed_is_an_error_and_the_next_call_goes_on(call: Call) -> None:
    call("bash", command="echo x >a; mkdir s; echo y >s/b; chmod 000 a s .")
    for path in ("a", "s/b"):
        result = call("read", path=path)
        assert (result.status, "Permission denied" in result.text) == ("error", True)
    assert call("bash", command="chmod 600 a; cat a").text == "x"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_the_host_cannot_read_a_closed_file_either(tmp_path: Path) -> None:
    (tmp_path / "a").touch(0o000)
    with pytest.raises(PathError, match="a: Permission denied"):
        read_file(str(tmp_path), "a", 100)


def test_written_files_are_where_they_should_be(call: Call, base: Path) -> None:
    call("write", path="link_inside/a.txt", content="a")
    call("write", path="sub/new/deep/file.py", content="b")
    call("write", path="/workspace/c.txt", content="/workspace stays as it was written")
    assert (base / "ws" / "sub" / "a.txt").read_text() == "a"
    assert (base / "ws" / "sub" / "new" / "deep" / "file.py").read_text() == "b"
    assert (base / "ws" / "c.txt").read_text() == "/workspace stays as it was written"


def test_a_hard_link_is_read_as_the_file_it_is_and_never_written_through(call: Call, base: Path) -> None:
    assert call("read", path="hard_link").text == "CANARY-E01-outside"
    assert call("write", path="hard_link", content="new").status == "ok"
    assert call("edit", path="hard_link", old="new", new="newer").status == "ok"
    assert (base / "ws" / "hard_link").read_text() == "newer"
    assert (base / "outside" / "secret.txt").read_text() == "CANARY-E01-outside\n"


@pytest.mark.parametrize(
    "path",
    ["", ".", "/", "..", "fifo", "socket", "sub", "sub/..", "a/", "x" * 300, "\ud83d", "~", "~/a", "a/../.."],
)
def test_paths_that_name_no_file(tmp_path: Path, path: str) -> None:
    subprocess.run(["sh", str(CASES / "E01_setup.sh"), str(tmp_path)], check=True, capture_output=True)
    (tmp_path / "ws" / "a").mkdir()
    before = tree(tmp_path)
    with contextlib.chdir(tmp_path), socket.socket(socket.AF_UNIX) as listener:
        listener.bind("ws/socket")
        with pytest.raises(PathError):
            read_file(str(tmp_path / "ws"), path, 1000)
        with pytest.raises(PathError):
            write_file(str(tmp_path / "ws"), path, b"x")
    (tmp_path / "ws" / "socket").unlink()
    assert tree(tmp_path) == before


def test_a_folder_swapped_for_a_link_in_between_leads_nowhere(tmp_path: Path) -> None:
    workspace, outside = tmp_path / "ws", tmp_path / "outside"
    (workspace / "sub").mkdir(parents=True)
    outside.mkdir()
    (outside / "file").write_text("CANARY")
    (workspace / "sub" / "file").write_text("mine")
    (workspace / "link").symlink_to(outside)
    stop = threading.Event()

    def put(source: str, target: str) -> None:
        while True:
            try:
                os.rename(workspace / source, workspace / target)
            except OSError:  # the writer has made the folder anew in the meantime
                shutil.rmtree(workspace / target, ignore_errors=True)
            else:
                return

    def swap() -> None:
        while not stop.is_set():
            put("sub", "aside")
            put("link", "sub")
            put("sub", "link")
            put("aside", "sub")

    thread = threading.Thread(target=swap)
    thread.start()
    seen: set[bytes] = set()
    try:
        for _ in range(1500):
            for action in (
                lambda: seen.add(read_file(str(workspace), "sub/file", 100)),
                lambda: write_file(str(workspace), "sub/new", b"x"),
            ):
                try:
                    action()
                except PathError:
                    continue
    finally:
        stop.set()
        thread.join()
    assert seen == {b"mine"}
    assert [path.name for path in outside.iterdir()] == ["file"]


def test_a_host_tool_reads_a_solution_without_following_a_link_out(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    (tmp_path / "expert.py").write_text("CANARY")
    (tmp_path / "ws" / "solution.py").symlink_to("../expert.py")
    with pytest.raises(PathError, match="outside the workspace"):
        read_file(str(tmp_path / "ws"), "solution.py", 1000)
