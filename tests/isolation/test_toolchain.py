"""What belongs to the toolchain, and what must not."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from d2k_agent.isolation import toolchain_paths

ROOT = Path(__file__).parents[2]


def readable(path: Path) -> bool:
    return any(path.resolve().is_relative_to(tree) for tree in toolchain_paths()[0])


@pytest.mark.parametrize("module", ["json", "ssl", "ctypes", "numpy", "sympy", "torch", "triton"])
def test_modules_of_the_toolchain_can_be_read(module: str) -> None:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        pytest.skip(f"{module} is not installed here")
    assert readable(Path(spec.origin))


@pytest.mark.parametrize(
    "module", ["d2k_agent", "d2k_agent.errors", "pytest", "pydantic", "litellm", "langgraph.graph"]
)
def test_other_modules_cannot(module: str) -> None:
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    assert not readable(Path(spec.origin))


@pytest.mark.parametrize("program", ["sh", "cc", "ls"])
def test_programs_can_be_read(program: str) -> None:
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"{program} is not installed here")
    assert readable(Path(path))


def test_private_places_are_left_out() -> None:
    trees = [Path(tree) for part in toolchain_paths() for tree in part]
    for place in (
        Path("/"),
        Path("/etc"),
        Path("/home"),
        Path("/var"),
        Path("/tmp"),
        Path("/proc"),
        Path("/dev"),
        Path.home(),
        ROOT,
    ):
        assert place.resolve() not in trees


def test_folders_of_packages_can_be_listed_and_not_read() -> None:
    read, listed = toolchain_paths()
    site = str(Path(sysconfig.get_path("purelib")).resolve())
    assert site in listed
    assert site not in read


def test_an_installed_package_and_its_data_are_left_out(tmp_path: Path) -> None:
    site = tmp_path / "lib" / "site-packages"
    shutil.copytree(ROOT / "d2k_agent" / "isolation", site / "d2k_agent" / "isolation")
    (site / "d2k_agent" / "_data" / "guidance").mkdir(parents=True)
    (site / "numpy").mkdir()
    program = "import json, sys; sys.path.insert(0, sys.argv[1]); from d2k_agent.isolation import toolchain_paths; "
    argv = [sys.executable, "-I", "-c", program + "print(json.dumps(toolchain_paths()))", str(site)]
    read, listed = json.loads(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)
    data = site.resolve() / "d2k_agent" / "_data"
    assert not any(data.is_relative_to(tree) for tree in read)
    assert str(site.resolve() / "numpy") in read
    assert str(site.resolve()) in listed


def test_a_compiler_off_the_beaten_track_is_found_by_path(tmp_path: Path) -> None:
    compiler = tmp_path / "gcc-14" / "bin" / "gcc"
    for folder in ("bin", "libexec", "private"):
        (tmp_path / "gcc-14" / folder).mkdir(parents=True)
    compiler.touch(0o755)
    program = "import json; from d2k_agent.isolation import toolchain_paths; print(json.dumps(toolchain_paths()[0]))"
    environment = {"PATH": f"{compiler.parent}:/usr/bin", "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-c", program]
    read = json.loads(subprocess.run(argv, env=environment, capture_output=True, text=True, check=True).stdout)
    prefix = tmp_path.resolve() / "gcc-14"
    assert {tree for tree in read if tree.startswith(str(prefix))} == {str(prefix / "bin"), str(prefix / "libexec")}
