"""evaluate --explain and --verify, through the real command, on sources that are refused within seconds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.shell import Answer, assert_refused, d2k

FORBIDDEN = "import torch\n\n\ndef run(G, steps=5):\n    return torch.matmul(G, G)\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a source that breaks a rule, and in verdict.json what evaluate --json printed on it."""
    folder = tmp_path_factory.mktemp("judged")
    (folder / "solution.py").write_text(FORBIDDEN)
    answer = d2k("evaluate", "muon", "solution.py", "--device", "cpu", "--json", folder=folder)
    assert answer.status == 1, answer
    (folder / "verdict.json").write_text(answer.out)
    return folder


def verify(folder: Path, verdict: str, *more: str, solution: str = "solution.py") -> Answer:
    return d2k("evaluate", "muon", solution, "--device", "cpu", "--verify", verdict, *more, folder=folder)


def test_explain_prints_a_page_in_place_of_the_verdict(folder: Path) -> None:
    answer = d2k("evaluate", "muon", "solution.py", "--device", "cpu", "--explain", folder=folder)
    assert answer.status == 1
    assert "Decided by: static." in answer.out and "line 5" in answer.out
    assert "compile       did not run      -  static decided before" in answer.out
    assert "nothing was measured: the step static decided before" in answer.out
    assert "seed commitment " in answer.out


def test_a_verdict_holds_where_the_same_is_found_again_whatever_its_status(folder: Path) -> None:
    answer = verify(folder, "verdict.json")
    assert answer.status == 0, answer
    assert answer.out.startswith("verdict.json holds: judged again under a fresh seed, status (rule_violation)")


def test_a_verdict_that_says_something_else_does_not_hold_and_scripts_are_told_in_what(folder: Path) -> None:
    forged = json.loads((folder / "verdict.json").read_text())
    forged |= {"status": "untimed", "violations": [], "message": "correct"}
    (folder / "forged.json").write_text(json.dumps(forged))
    answer = verify(folder, "forged.json", "--json")
    assert answer.status == 1, answer
    told = json.loads(answer.out)
    assert told["verified"] is False and told["verdict"]["status"] == "rule_violation"
    assert {"what": "status", "before": "untimed", "now": "rule_violation", "decides": True} in told["differences"]


def test_explain_follows_a_comparison(folder: Path) -> None:
    answer = verify(folder, "verdict.json", "--explain")
    assert answer.status == 0
    assert answer.out.index("verdict.json holds") < answer.out.index("Checked, in this order")


def test_whoever_requires_times_is_not_content_with_status_and_checks(folder: Path) -> None:
    answer = verify(folder, "verdict.json", "--require-timing")
    assert answer.status == 1 and "verdict.json holds" in answer.out and "neither verdict has a latency" in answer.out
    assert "--require-timing: no latencies could be compared" in answer.err


def test_ranks_are_those_that_were_asked_for_or_those_of_the_verdict_that_is_put_to_the_test(folder: Path) -> None:
    def judged(*more: str) -> Answer:
        return d2k("evaluate", "ep_dispatch_fp8", "solution.py", "--device", "cpu", "--json", *more, folder=folder)

    of_four = judged("--ranks", "4")
    assert json.loads(of_four.out)["environment"]["details"]["ranks"] == 4
    (folder / "of_four.json").write_text(of_four.out)
    same = judged("--verify", "of_four.json")
    told = json.loads(same.out)
    assert same.status == 0 and told["verdict"]["environment"]["details"]["ranks"] == 4
    assert [item["what"] for item in told["differences"]] == []
    forged = json.loads(of_four.out)
    for ranks in (3, "4", 2.0, [2]):
        forged["environment"]["details"]["ranks"] = ranks
        (folder / "forged.json").write_text(json.dumps(forged))
        answer = judged("--verify", "forged.json")
        assert_refused(answer, 2, "forged.json holds no verdict", "ep_dispatch_fp8 is not for")
    told = json.loads(judged("--verify", "of_four.json", "--ranks", "2").out)
    assert {"what": "ranks", "before": "4", "now": "2", "decides": False} in told["differences"]


@pytest.mark.parametrize(
    ("task", "ranks", "said"),
    [
        ("ep_dispatch_fp8", "3", "ep_dispatch_fp8 is for 2, 4 or 8 ranks, not for 3; choose one of these"),
        ("muon", "2", "muon is for one rank, not for 2; leave --ranks out"),
    ],
)
@pytest.mark.parametrize("command", ["evaluate", "compile"])
def test_ranks_that_a_task_is_not_for_are_refused(folder: Path, command: str, task: str, ranks: str, said: str) -> None:
    assert_refused(d2k(command, task, "solution.py", "--ranks", ranks, folder=folder), 2, said)


def test_a_page_and_an_object_at_once_are_refused(folder: Path) -> None:
    answer = d2k("evaluate", "muon", "solution.py", "--explain", "--json", folder=folder)
    assert_refused(answer, 2, "--explain", "--json", "leave one of them out")
    assert answer.out == ""


def test_a_verdict_on_another_source_is_refused_before_anything_starts(folder: Path) -> None:
    (folder / "other.py").write_text(FORBIDDEN + "\n")
    answer = verify(folder, "verdict.json", solution="other.py")
    assert_refused(answer, 2, "verdict.json is a verdict on another source", "other.py")


def test_a_verdict_under_another_task_is_refused_before_anything_starts(folder: Path) -> None:
    answer = d2k(
        "evaluate", "fused_linear_ce", "solution.py", "--device", "cpu", "--verify", "verdict.json", folder=folder
    )
    assert_refused(answer, 2, "verdict.json is a verdict under another task, muon, than fused_linear_ce")
    changed = json.loads((folder / "verdict.json").read_text())
    changed["environment"]["task_digest"] = "0" * 64
    (folder / "changed.json").write_text(json.dumps(changed))
    assert_refused(
        verify(folder, "changed.json"), 2, "changed.json", "made under other files than", "000000000000", "muon"
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ("line 1, column 1",)),
        (b'{"status":\n "untimed", "elig', ("cut off", "line 2")),
        (b"[1]", ("not list",)),
        (b"{}", ("'status' is missing",)),
        (b'{"a": NaN}', ("NaN",)),
        (b"\xff\xfe", ("not UTF-8 text (byte 0)",)),
        (b"[" * 100_000, ("no JSON",)),
        (b'{"status": "untimed", "score": 1}', ("unknown field 'score'",)),
    ],
)
def test_a_file_without_a_verdict_is_refused_with_its_name(
    folder: Path, content: bytes, words: tuple[str, ...]
) -> None:
    (folder / "damaged.json").write_bytes(content)
    assert_refused(verify(folder, "damaged.json"), 2, "damaged.json holds no verdict", "> verdict.json", *words)


def test_a_number_beyond_every_float_is_no_verdict(folder: Path) -> None:
    damaged = json.loads((folder / "verdict.json").read_text()) | {"drift": 10**400}
    (folder / "damaged.json").write_text(json.dumps(damaged))
    assert_refused(verify(folder, "damaged.json"), 2, "damaged.json holds no verdict")


def test_a_file_that_is_not_there_and_a_folder_are_named(folder: Path) -> None:
    assert_refused(verify(folder, "none.json"), 2, "no file none.json", "--json")
    assert_refused(verify(folder, "."), 2, "cannot be read")
