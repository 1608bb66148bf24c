"""The program that imports the evaluator's code from stdin."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import d2k_agent
from d2k_agent.contract.archive import build_archive, own_archive, program, sized

ARCHIVE = build_archive(Path(d2k_agent.__file__).parent)


def test_a_process_started_from_an_archive_imports_it_and_can_hand_it_on() -> None:
    start = (
        "import hashlib, json\n"
        "from d2k_agent.contract import archive\n"
        "order = take(int.from_bytes(take(8), 'little')).decode()\n"
        "print(json.dumps([archive.__file__, archive.own_archive() == data, order]))\n"
    )
    given = sized(ARCHIVE) + sized(b"an order")
    done = subprocess.run(
        [sys.executable, "-I", "-c", program(start)], input=given, capture_output=True, timeout=60, check=True, cwd="/"
    )
    assert json.loads(done.stdout) == ["d2k_agent/contract/archive.py", True, "an order"]


def test_in_a_checkout_the_archive_is_made_of_the_folder() -> None:
    assert own_archive() == build_archive(Path(d2k_agent.__file__).parent)


def test_a_cut_archive_is_said() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-c", program("")],
        input=sized(ARCHIVE)[:1000],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert b"cut short" in done.stderr
