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


def score(
    bundle: Path, *arguments: str, flags: tuple[str, ...] = (), **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the one command, in its folder, as on a machine where nobody has heard of this package."""
    return subprocess.run(
        [sys.executable, *flags, "score.py", *arguments],
        cwd=bundle,
        env={"PATH": PATH, **environment},
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
    assert "turn 3 of run (provisional candidate, which the run did not measure)" in done.stdout
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


def test_ctrl_c_before_its_first_line_is_a_sentence(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "argparse.py").write_text(
        "import os, signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background ignores it\n"
        "os.kill(os.getpid(), signal.SIGINT)\n"
    )
    done = score(bundle, PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (130, "score.py: ended by Ctrl-C\n")


@pytest.mark.parametrize("name", ["__future__", "hashlib", "json", "os", "argparse", "torch", "d2k_agent"])
@pytest.mark.parametrize("path", ["", ":."])
def test_a_module_that_was_added_is_not_run_and_is_named(bundle: Path, name: str, path: str) -> None:
    (bundle / f"{name}.py").write_text("print('planted')\n")
    done = score(bundle, PYTHONPATH=path)
    assert done.returncode == 2 and "planted" not in done.stdout + done.stderr
    assert done.stderr == f"score.py: added since the export: {name}.py; take it out of the bundle, and score that\n"


def test_code_in_the_tasks_folders_is_named_and_a_folder_of_the_users_own_is_not(bundle: Path) -> None:
    for name in ("task/torch.so", "task/hidden/more.py", ".venv/lib/some.py", "score.json", "notes.txt"):
        (bundle / name).parent.mkdir(parents=True, exist_ok=True)
        (bundle / name).touch()
    assert "added since the export: task/hidden/more.py, task/torch.so;" in score(bundle).stderr


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"job": None}, "of no bundle that this can score"),
        (
            {"format": 99},
            "of no bundle that this can score (its format is 99, and this reads format 1); export the run",
        ),
        ({"scored": {}}, "of no bundle that this can score"),
        ({"files": {"score.py": "x"}}, "manifest.json cannot be read"),
        ({"files": [3]}, "manifest.json cannot be read"),
    ],
)
def test_a_manifest_of_another_kind_is_one_sentence(bundle: Path, change: dict[str, object], words: str) -> None:
    whole = json.loads((bundle / "manifest.json").read_text())
    (bundle / "manifest.json").write_text(json.dumps(whole | change))
    done = score(bundle)
    assert done.returncode == 2 and words in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


def test_a_manifest_that_lacks_something_says_what(bundle: Path) -> None:
    whole = json.loads((bundle / "manifest.json").read_text())
    for name in ("job", "format", "scored"):
        (bundle / "manifest.json").write_text(json.dumps({key: value for key, value in whole.items() if key != name}))
        done = score(bundle)
        assert done.returncode == 2 and f"({name!r} is missing); export the run again" in done.stderr


def test_export_tells_the_sha256_by_which_a_score_names_its_bundle(tmp_path: Path) -> None:
    run = ended_run(tmp_path)
    command = [sys.executable, "-m", "d2k_agent", "export", "run", "--task", "scaling", "--out"]
    told = {}
    for out, more in (("first", []), ("second", ["--json"])):
        done = subprocess.run(
            [*command, out, *more],
            cwd=run.path.parent,
            env={"PATH": PATH, "HOME": str(tmp_path), "PYTHONPATH": str(PACKAGE.parent)},
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
        told[out] = done.stdout
        assert hashlib.sha256((tmp_path / out / "manifest.json").read_bytes()).hexdigest() in told[out], done.stderr
    assert "Its score is of this bundle where it says bundle_sha256 " in told["first"]
    assert json.loads(told["second"])["bundle_sha256"]


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


def test_a_file_that_cannot_be_read_is_not_called_missing(bundle: Path) -> None:
    for name in ("solution.py", "baseline.py"):
        (bundle / name).unlink()
    (bundle / "solution.py").mkdir()  # which nobody reads as a file, whatever the permissions
    done = score(bundle)
    assert done.returncode == 2
    assert "baseline.py (missing), solution.py (unreadable: Is a directory);" in done.stderr, done.stderr


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


def test_an_empty_name_is_no_folder(tmp_path: Path) -> None:
    ended_run(tmp_path)
    with pytest.raises(UsageError, match="names no folder; name a new one, or leave --out out"):
        export_run(around(tmp_path), "run", "", Settings(), lambda _: None, str(tmp_path / "scaling"))
    assert not (tmp_path / "run-bundle").exists()
