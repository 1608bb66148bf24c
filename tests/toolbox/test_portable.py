"""Texts read the same wherever a run was made."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from d2k_agent.sandbox import Captured
from d2k_agent.sandbox.capture import HeadTail
from d2k_agent.toolbox import PortableText
from d2k_agent.toolbox.portable import decoded, readable, shortened

TEXT = PortableText({"/home/u/ws": "/workspace", "/home/u/env": "<python>", "/usr/local": "<python>"})


@pytest.mark.parametrize(
    ("given_text", "expected"),
    [
        ("/home/u/ws", "/workspace"),
        ("see /home/u/ws/a.py:3", "see /workspace/a.py:3"),
        ("in '/home/u/ws'.", "in '/workspace'."),
        ("It is /home/u/ws.", "It is /workspace."),
        ("--out=/home/u/ws/x", "--out=/workspace/x"),
        ("/home/u/ws-private/x", "/home/u/ws-private/x"),
        ("/home/u/ws.old/x", "/home/u/ws.old/x"),
        ("/home/u/ws2", "/home/u/ws2"),
        ("/mnt/home/u/ws", "/mnt/home/u/ws"),
        ("/home/u/env/lib and /usr/local/lib", "<python>/lib and <python>/lib"),
    ],
)
def test_folders_of_this_machine_get_their_portable_names(given_text: str, expected: str) -> None:
    assert TEXT.outward(given_text) == expected


@pytest.mark.parametrize(
    ("given_text", "expected"),
    [
        ("/workspace/a.py", "/home/u/ws/a.py"),
        ("cat /workspace/a >/workspace/b", "cat /home/u/ws/a >/home/u/ws/b"),
        ("/workspaces/a", "/workspaces/a"),
        ("my/workspace/a", "my/workspace/a"),
        ("<python>/bin/python x.py", "/home/u/env/bin/python x.py"),
    ],
)
def test_a_model_may_use_the_portable_names(given_text: str, expected: str) -> None:
    assert TEXT.inward(given_text) == expected


@given(st.text())
def test_text_is_always_encodable_and_free_of_control_characters(text: str) -> None:
    shown = readable(text + "\ud800\x00\x9b")
    shown.encode()
    assert not [c for c in shown if ord(c) < 32 and c not in "\t\n\r"]
    assert "\x9b" not in shown


@given(st.text(), st.integers(2, 40))
def test_a_cut_never_makes_a_replacement_character(text: str, limit: int) -> None:
    stream = HeadTail(limit)
    stream.feed(text.replace("\ufffd", "").encode("utf-8", "ignore"))
    assert "\ufffd" not in decoded(stream.captured())


def test_the_number_of_dropped_bytes_counts_what_the_cut_made_unreadable() -> None:
    e = "\u00e9".encode()
    assert decoded(Captured(b"ab" + e[:1], e[1:] + b"cd", 10)) == "ab\n[... 12 bytes dropped ...]\ncd"


def test_shortening_keeps_both_ends_and_says_how_much_is_gone() -> None:
    text = shortened("a" * 5000 + "b" * 5000, 1000)
    assert len(text) <= 1000
    head, _, rest = text.partition("\n[... ")
    number, _, tail = rest.partition(" characters dropped ...]\n")
    assert len(head) + len(tail) + int(number) == 10_000
    assert set(head) == {"a"}
    assert set(tail) == {"b"}
    assert shortened("short", 1000) == "short"
