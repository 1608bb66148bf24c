"""What belongs to the toolchain, and what must not."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import pwd
import shutil
import subprocess
import sys
import sysconfig
import tempfile
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


def with_compiler(path: str, *roots: Path) -> set[str]:
    """What a process with this PATH may read below `roots`, relative to them."""
    program = "import json; from d2k_agent.isolation import toolchain_paths; print(json.dumps(toolchain_paths()[0]))"
    environment = {"PATH": path, "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-c", program]
    read = json.loads(subprocess.run(argv, env=environment, capture_output=True, text=True, check=True).stdout)
    below = {(tree, root.resolve()) for tree in map(Path, read) for root in roots}
    return {str(tree.relative_to(root)) for tree, root in below if tree.is_relative_to(root)}


def prefix_with_compiler(prefix: Path) -> Path:
    for folder in ("bin", "libexec", "private"):
        (prefix / folder).mkdir(parents=True)
    (prefix / "bin" / "gcc").touch(0o755)
    return prefix / "bin"


def test_a_compiler_off_the_beaten_track_is_found_by_path(tmp_path: Path) -> None:
    programs = prefix_with_compiler(tmp_path / "gcc-14")
    assert with_compiler(f"{programs}:/usr/bin", tmp_path) == {"gcc-14/bin", "gcc-14/libexec"}


def test_a_link_to_a_compiler_opens_neither_a_home_nor_a_checkout(tmp_path: Path) -> None:
    prefix_with_compiler(tmp_path / "gcc-14")
    with contextlib.ExitStack() as stack:
        homes = []
        for place in (Path(pwd.getpwuid(os.getuid()).pw_dir), ROOT):
            if not os.access(place, os.W_OK):
                continue
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=".d2k-test-", dir=place)))
            for folder in ("bin", "lib", "include"):
                (home / folder).mkdir()
            (home / "bin" / "gcc").symlink_to(tmp_path / "gcc-14" / "bin" / "gcc")
            homes.append(home)
        path = ":".join(str(home / "bin") for home in homes)
        assert with_compiler(path, tmp_path, *homes) == {"gcc-14/bin", "gcc-14/libexec"}
