"""A bundle: everything in it, scored by its one command with nothing of ours beside it, and refused when altered."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from d2k_agent.app.bundle import Subject, bundle_files, read_subject
from d2k_agent.app.exporting import export_run
from d2k_agent.app.scoring import DEFAULT_TARGET
from d2k_agent.config import Settings
from d2k_agent.contract import CompileReport, source_sha256
from d2k_agent.contract.archive import build_archive
from d2k_agent.errors import UsageError
from d2k_agent.reports.score import Scored
from tests.app.ended_run import ended_run
from tests.app.test_scoring import around
from tests.evaluator.scaling import HONEST, task
from tests.launchers.prefixes import PATH

PACKAGE = Path(__file__).resolve().parents[2] / "d2k_agent"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    ended_run(folder)
    bundle = export_run(around(folder), "run", None, Settings(), lambda _: None, str(folder / "scaling"))
    assert bundle.folder == folder / "run-bundle"
    return bundle.folder


@pytest.fixture
def bundle(exported: Path, tmp_path: Path) -> Path:
    """A copy that a test may alter."""
    return Path(shutil.copytree(exported, tmp_path / "bundle"))


def score(bundle: Path, *arguments: str, flags: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run the one command, in its folder, as on a machine where nobody has heard of this package."""
    return subprocess.run(
        [sys.executable, *flags, "score.py", *arguments],
        cwd=bundle,
        env={"PATH": PATH},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_the_bundle_holds_winner_task_checks_baseline_report_and_evaluator(exported: Path) -> None:
    names = {path.relative_to(exported).as_posix() for path in exported.rglob("*") if path.is_file()}
    assert names == {
        "score.py", "manifest.json", "solution.py", "baseline.py", "evaluator.zip", "scorer.zip",
        "compile_report.json", "compile_report.txt",
        "task/config.json", "task/get_inputs.py", "task/reference.py", "task/solution.py", "task/task_description.md",
        "task/implementation_requirements.yaml",
        "task/hidden/workloads.json", "task/hidden/check.py", "task/hidden/rules.toml",
    }  # fmt: skip
    manifest = json.loads((exported / "manifest.json").read_text())
    assert set(manifest["files"]) == names - {"manifest.json"}
    assert manifest["scored"]["target"] == DEFAULT_TARGET
    report = json.loads((exported / "compile_report.json").read_text())
    assert (report["architecture"], report["error"]) == ("sm_100", None) and report["kernels"]
    assert "Compiles for b200 (sm_100" in (exported / "compile_report.txt").read_text()
    assert (exported / "evaluator.zip").read_bytes() == build_archive(PACKAGE), "what a run is judged by"


def test_one_command_scores_it_and_says_that_a_cpu_is_no_b200(bundle: Path) -> None:
    done = score(bundle, "--device", "cpu")
    assert done.returncode == 0, done.stderr
    assert "turn 3 of run (provisional candidate, unranked)" in done.stdout
    assert "nothing was measured on " in done.stdout and "says nothing about b200" in done.stdout
    assert "written to score.json" in done.stderr
    data = json.loads((bundle / "score.json").read_text())
    assert (data["status"], data["on_target"], data["measured_on"]) == ("untimed", False, None)
    assert data["bundle_sha256"] == hashlib.sha256((bundle / "manifest.json").read_bytes()).hexdigest()
    archive = hashlib.sha256((bundle / "evaluator.zip").read_bytes()).hexdigest()
    assert data["machine"]["evaluator_digest"] == archive
    assert data["machine"]["torch"] and data["machine"]["machine"].startswith("Linux")


def test_help_needs_the_standard_library_alone(bundle: Path) -> None:
    done = score(bundle, "--help", flags=("-I", "-S"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip().endswith("python3 score.py --gpu 0")


def test_ctrl_c_before_its_first_line_is_a_sentence(bundle: Path) -> None:
    (bundle / "argparse.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    done = score(bundle)
    assert (done.returncode, done.stderr) == (130, "score.py: ended by Ctrl-C\n")


def test_what_cannot_be_is_one_sentence(bundle: Path) -> None:
    for arguments, words in (
        (("--gpu", "first"), "gpu 'first' is no index"),
        (("--out", "none/score.json"), "cannot be written; name another file with --out"),
        (("--turns", "3"), "see `python3 score.py --help`"),
    ):
        done = score(bundle, *arguments)
        assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("solution.py", "altered since the export: solution.py;"),
        ("task/hidden/check.py", "altered since the export: task/hidden/check.py;"),
        ("evaluator.zip", "altered since the export: evaluator.zip;"),
        ("scorer.zip", "altered since the export: scorer.zip;"),
        ("manifest.json", "manifest.json cannot be read"),
    ],
)
def test_an_altered_file_is_refused(bundle: Path, name: str, words: str) -> None:
    data = (bundle / name).read_bytes()
    (bundle / name).write_bytes(data[: len(data) // 2])
    done = score(bundle)
    assert done.returncode == 2 and words in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    (bundle / name).unlink()
    assert score(bundle).returncode == 2
    assert not (bundle / "score.json").exists()


@pytest.mark.parametrize(
    ("name", "words"),
    [("solution.py", "is not the candidate [0-9a-f]{64} that is to be scored"), ("task/hidden/check.py", "scaling")],
)
def test_a_manifest_that_names_another_candidate_or_task_than_it_holds_is_nonsense(name: str, words: str) -> None:
    scored = Scored("run", "scaling", 3, source_sha256(HONEST), "b200", True, "because")
    report = CompileReport("b200", "sm_100", "3.7", (), ())
    files = bundle_files(Subject(scored, task(), HONEST, None), report, {})
    manifest = json.loads(files["manifest.json"])
    assert read_subject(manifest, files).candidate == HONEST
    files[name] += b"# another\n"
    with pytest.raises(ValueError, match=words):
        read_subject(manifest, files)


def test_a_folder_that_holds_something_is_not_written_to(tmp_path: Path) -> None:
    ended_run(tmp_path)
    with pytest.raises(UsageError, match=r"scaling is there already; name a new folder with --out"):
        export_run(around(tmp_path), "run", "scaling", Settings(), lambda _: None, str(tmp_path / "scaling"))
