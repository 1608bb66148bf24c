"""An environment built from the locks is the one that was reviewed: exact versions, each with its hashes."""

from __future__ import annotations

import re
import sys
import sysconfig
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
# 1.82.7 and 1.82.8 stole credentials; 1.107.0 was withdrawn and is reported to have done so.
BAD_LITELLM = {"1.82.7", "1.82.8", "1.107.0"}
# Code that runs at every start of Python: setuptools' and the folder of an editable install, nothing else.
KNOWN_PTH = {"distutils-precedence.pth", "_d2k_agent.pth"}


def locked(file: str = "requirements.lock") -> list[tuple[Requirement, list[str]]]:
    """Each requirement of a lock with its hashes."""
    text = (ROOT / file).read_text(encoding="utf-8").replace("\\\n", " ")
    found = []
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            requirement, *hashes = re.split(r"\s+--hash=", line.strip())
            found.append((Requirement(requirement), hashes))
    return found


@pytest.mark.parametrize("file", ["requirements.lock", "requirements-lm.txt"])
def test_every_locked_requirement_is_one_version_with_hashes(file: str) -> None:
    assert locked(file)
    for requirement, hashes in locked(file):
        assert re.fullmatch(r"==[\w.+!]+", str(requirement.specifier)), requirement
        assert hashes, f"{requirement} has no hash"
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", one) for one in hashes), requirement


@pytest.mark.parametrize("file", ["requirements.lock", "requirements-lm.txt"])
def test_the_lock_names_no_index_and_no_address(file: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    assert not re.search(r"://|^\s*--(?!hash)|^-", text, re.MULTILINE)
    assert all(requirement.url is None for requirement, _ in locked(file))


def test_torch_and_triton_are_pinned_beside_the_lock() -> None:
    lines = (ROOT / "requirements-eval.txt").read_text(encoding="utf-8").splitlines()
    pins = {Requirement(line).name: Requirement(line) for line in lines if line and not line.startswith("#")}
    assert set(pins) == {"torch", "triton"}
    extra = {
        Requirement(line).name: Requirement(line) for line in PYPROJECT["project"]["optional-dependencies"]["eval"]
    }
    for name, pin in pins.items():
        (version,) = (part.version for part in pin.specifier)
        assert str(pin.specifier) == f"=={version}"
        assert extra[name].specifier.contains(version)
    assert not {requirement.name for requirement, _ in locked()} & {"torch", "triton"}


def test_every_declared_dependency_is_locked_within_its_range() -> None:
    groups = PYPROJECT["dependency-groups"]
    versions = {}
    for requirement, _ in locked():
        if requirement.marker is None or requirement.marker.evaluate():
            versions[canonicalize_name(requirement.name)] = str(requirement.specifier).removeprefix("==")
    for line in [*PYPROJECT["project"]["dependencies"], *groups["torch-needs"], *groups["dev"]]:
        declared = Requirement(line)
        assert declared.specifier.contains(versions[canonicalize_name(declared.name)]), line


def test_what_torch_needs_is_locked_too() -> None:
    names = {canonicalize_name(requirement.name) for requirement, _ in locked()}
    for line in metadata.requires("torch") or []:
        needed = Requirement(line)
        optional = needed.marker is not None and "extra" in str(needed.marker)
        if not optional and not needed.name.startswith(("nvidia", "cuda", "triton")):
            assert canonicalize_name(needed.name) in names, f"torch needs {line}: add it to the group torch-needs"


def test_litellm_is_one_known_good_version() -> None:
    (declared,) = (line for line in PYPROJECT["project"]["dependencies"] if Requirement(line).name == "litellm")
    (pinned,) = (str(requirement) for requirement, _ in locked() if requirement.name == "litellm")
    assert declared == pinned
    version = declared.removeprefix("litellm==")
    assert re.fullmatch(r"[\d.]+", version)
    assert version not in BAD_LITELLM


def test_nothing_unknown_runs_at_every_start_of_python() -> None:
    folders = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    found = {path.name for folder in folders for path in Path(folder).glob("*.pth")}
    assert sys.prefix != sys.base_prefix, "run the tests in .venv: make test"
    assert found - KNOWN_PTH == set()
