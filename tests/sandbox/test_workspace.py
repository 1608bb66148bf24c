"""What a command does to its own workspace is its own affair, and never the end of the run."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from tests.sandbox.boxes import text

if TYPE_CHECKING:
    from d2k_agent.sandbox import Sandbox


@pytest.mark.parametrize("command", ["chmod 000 .", "mkdir -p .tmp && chmod 000 .tmp", "chmod 000 . .tmp"])
def test_a_command_that_closes_the_workspace_does_not_keep_the_next_one_out(box: Sandbox, command: str) -> None:
    closed = box.run(["/bin/sh", "-c", command], limit_s=30, output_bytes=1000)
    mode = stat.S_IMODE(box.workspace.stat().st_mode)
    assert mode & stat.S_IRWXU == stat.S_IRWXU, "the host tools read the workspace between two calls"
    again = box.run(["/bin/sh", "-c", "echo there >file; cat file; mktemp"], limit_s=30, output_bytes=1000)
    assert (again.returncode, text(again.stdout).splitlines()[0]) == (0, "there"), (closed, again)
