"""profile and sanitize through the real command: what is refused before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from d2k_agent.cli import main
from tests.cli.shell import ROOT, d2k


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("profile", "--sections", "memory,cache"), ("no section 'cache'", "scheduler")),
        (("profile", "--call-ms", "0"), ("--call-ms must be greater than 0",)),
        (("profile", "--tokens", "5"), ("--tokens must be at least 100",)),
        (("profile", "--tokens", "500", "--json"), ("--tokens", "leave one of them out")),
        (("profile", "--against", "solution.py"), ("solution.py is no profile", "profile --json")),
        (("profile", "--against", ""), ("--against names nothing",)),
        (("profile", "--against", "nowhere"), ("there is no run 'nowhere'",)),
        (("sanitize", "--check", "synccheck"), ("invalid choice: 'synccheck'",)),
        (("sanitize", "--workload", "production_b32_m2048_n5464"), ("choose from smoke_b1_m32_n80",)),
    ],
)
def test_what_cannot_be_asked_for_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    words: tuple[str, ...],
) -> None:
    (tmp_path / "solution.py").write_text("def run(G, steps=5): ...\n")
    monkeypatch.chdir(tmp_path)
    name, *options = arguments
    try:
        status = main([name, "muon", "solution.py", *options])
    except SystemExit as end:
        status = end.code
    told = capsys.readouterr()
    assert (status, told.out) == (2, "")
    assert told.err.startswith("d2k-agent: ") and told.err.count("\n") == 1
    assert all(word in told.err for word in words), told.err


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_no_profile_is_no_success(tmp_path: Path, options: tuple[str, ...]) -> None:
    """The compiler's report stands in its place, which no script may take for a profile."""
    arguments = ("moe_grouped_topk", str(ROOT / "guidance/moe_grouped_topk/baseline.py"), "--device", "cpu")
    assert d2k("profile", *arguments, *options, folder=tmp_path).status == 2


def test_without_a_gpu_sanitize_says_so(tmp_path: Path) -> None:
    (tmp_path / "solution.py").write_text("import torch\n\n\ndef run(G, steps=5):\n    return G\n")
    answer = d2k("sanitize", "muon", "solution.py", "--device", "cpu", folder=tmp_path)
    assert answer.status == 2, "nobody looked, which no script may take for clean"
    assert answer.out.startswith("Note: no memcheck: candidates ran on the CPU")
