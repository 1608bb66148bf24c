"""The repository speaks of the project alone: no folder of somebody's machine, no host of a package registry."""

from __future__ import annotations

import re

import pytest

from tests.architecture.source import ROOT, repository_files

# Joined here, so that this file does not name them either.
HOSTS = [".".join(parts) for parts in [("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("debian", "org")]]
# Where any Linux user keeps secrets may be named: the sandbox's tests ask for it.
FOLDERS = ["work", r"root(?!/\.(?:netrc|ssh|aws))", "opt/(?:pypi|wheels)", "tmp/(?:plan|ve)"]
MACHINE = re.compile(r"(?<![\w.$}>-])/(?:" + "|".join(FOLDERS) + r")(?![\w-])")
HOST = re.compile("|".join(re.escape(host) for host in HOSTS))


@pytest.mark.parametrize(("kind", "pattern"), [("machine path", MACHINE), ("registry host", HOST)])
def test_no_file_names_one(kind: str, pattern: re.Pattern[str]) -> None:
    files = repository_files()
    if files is None:
        pytest.skip("not a git checkout: which files belong to the repository is unknown")
    found = []
    for file in files:
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # not a text
        lines = text.splitlines()
        found += [
            f"{file.relative_to(ROOT)}:{n}: {line[:200]}" for n, line in enumerate(lines, 1) if pattern.search(line)
        ]
    assert not found, f"{kind}:\n" + "\n".join(found)


def test_the_pattern_knows_a_machine_path() -> None:
    assert MACHINE.search("see /" + "work/main")
    assert MACHINE.search('"/' + 'root/.local"')
    assert not MACHINE.search("/root/.ssh")
    assert not MACHINE.search("/workspace/solution.py")
    assert not MACHINE.search("notes/" + "work/x")
