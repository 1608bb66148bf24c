"""Groups E02 and E03 as a model sees them, and what the other tools say."""

from __future__ import annotations

import json
import sqlite3

import pytest

from d2k_agent.isolation import gpu_devices
from d2k_agent.sandbox import Sandbox
from tests.tools.conftest import Call


@pytest.mark.parametrize(
    "content", ["line \u2028 and \U0001f600 and no end", "a\r\nb\rc\n\n", "\ttab ", "\ufeffmark", "\n"]
)
def test_what_was_written_is_read(call: Call, box: Sandbox, content: str) -> None:
    assert call("write", path="f", content=content).status == "ok"
    assert (box.workspace / "f").read_bytes() == content.encode()
    assert call("read", path="f").text == (content.removesuffix("\n") or "[no output]")


def test_a_long_file_is_read_in_parts(call: Call, box: Sandbox) -> None:
    (box.workspace / "f").write_text("".join(f"line {n}\n" for n in range(1, 20_001)))
    first = call("read", path="f", lines=3).text
    assert first == "line 1\nline 2\nline 3\n[lines 1 to 3 of 20000; go on with first_line 4]"
    last = call("read", path="f", first_line=19_999).text
    assert last == "line 19999\nline 20000\n[lines 19999 to 20000 of 20000]"
    most = call("read", path="f", lines=5000)
    assert "go on with first_line" in most.text.splitlines()[-1]
    assert "dropped" not in most.text
    assert "past its end" in call("read", path="f", first_line=20_001).text


def test_one_endless_line_is_cut_in_the_middle(call: Call, box: Sandbox) -> None:
    (box.workspace / "f").write_text("a" * 100_000 + "end")
    text = call("read", path="f").text
    assert text.startswith("aaa")
    assert text.endswith("end")
    assert "dropped" in text


def test_a_file_too_large_to_read_is_refused(call: Call, box: Sandbox) -> None:
    with (box.workspace / "f").open("wb") as file:
        file.truncate(1 << 34)
    assert "larger than" in call("read", path="f").text


def test_half_a_surrogate_pair_cannot_be_written(call: Call, box: Sandbox) -> None:
    assert "surrogate" in call("write", path="f", content="x\ud83d").text
    assert list(box.workspace.iterdir()) == []


def test_exit_status_and_both_streams_reach_the_model(call: Call) -> None:
    result = call("bash", command="echo out; cat solution.py.missing; exit 3")
    assert result.status == "error"
    assert result.text.startswith("out\n[standard error]\ncat: solution.py.missing:")
    assert result.text.endswith("[exit status 3]")
    assert result.data["exit_status"] == 3


def test_standard_error_does_not_crowd_out_the_answer(call: Call) -> None:
    result = call(
        "bash", command="""python3 -c "import sys; sys.stderr.write('E'*5000000); print('the answer is 42')" """
    )
    assert result.text.startswith("the answer is 42\n[standard error]\nEEE")
    assert "bytes dropped" in result.text
    assert len(result.text) <= 24_000


def test_both_ends_of_a_long_output(call: Call) -> None:
    result = call("bash", command="seq 0 1999999")
    assert result.text.startswith("0\n1\n2\n")
    assert result.text.endswith("1999998\n1999999")
    assert "bytes dropped ...]" in result.text


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (r"printf '\377\376ok\n'", "\ufffd\ufffdok"),
        (r"printf 'a\000b\n'", "a\\x00b"),
        (r"""python3 -c "import sys; sys.stdout.buffer.write(b'\xed\xb3\xbf end\n')" """, "\ufffd\ufffd\ufffd end"),
        (r"printf '\033[31mred\n'", "\\x1b[31mred"),
        ("true", "[no output]"),
    ],
)
def test_strange_bytes_become_text(call: Call, command: str, shown: str) -> None:
    assert call("bash", command=command).text == shown


@pytest.mark.parametrize("command", ["head -c 4096 /bin/sh", "head -c 400000 /bin/sh", "head -c 9000 /dev/urandom"])
def test_binary_noise_can_be_stored(call: Call, command: str) -> None:
    text = call("bash", command=command).text
    assert len(text) <= 24_000
    json.dumps({"text": text}, ensure_ascii=False).encode()
    assert sqlite3.connect(":memory:").execute("select ?", (text,)).fetchone() == (text,)


def test_a_cut_inside_a_character_is_clean(call: Call) -> None:
    program = "import sys; sys.stdout.buffer.write(b'x' * 9999 + '\\u00e9'.encode() * 50000)"
    result = call("bash", command=f'python3 -c "{program}"')
    assert "\ufffd" not in result.text
    assert result.text.endswith("\u00e9")


def test_the_limit_of_a_command_can_be_chosen(call: Call) -> None:
    result = call("bash", command="echo before; sleep 60", limit_s=1)
    assert result.status == "timed_out"
    assert result.text == "before\n[timed out after 1 s; the command and everything it started were ended]"
    assert "at most 600" in call("bash", command="true", limit_s=601).text


def test_a_pipe_that_closes_early_is_no_error(call: Call) -> None:
    assert call("bash", command="set -o pipefail; yes 2>&1 | head -1; echo ${PIPESTATUS[0]}").text == "y\n141"


@pytest.mark.parametrize("command", ["echo \0", "echo \ud83d", "x" * 300_000])
def test_a_command_that_cannot_be_run_says_why(call: Call, command: str) -> None:
    result = call("bash", command=command)
    assert result.status == "error"
    assert "the command" in result.text
    assert "Traceback" not in result.text


def test_the_tool_library_does_not_show_in_a_command(call: Call) -> None:
    assert "D2K" not in call("bash", command="env").text


@pytest.mark.skipif(bool(gpu_devices()), reason="there is a GPU")
def test_without_a_gpu_a_command_that_asks_for_one_is_told(call: Call) -> None:
    assert call("bash", command="true", gpu=True).text == "this machine has no GPU; call again without gpu"


def test_host_tools_default_to_the_solution(call: Call) -> None:
    for name in ("submit", "compile", "profile"):
        assert "'path': 'solution.py'" in call(name).text
