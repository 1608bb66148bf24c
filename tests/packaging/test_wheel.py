"""The wheel holds the program and its data, and nothing that was run or written beside them."""

from __future__ import annotations

import email
import importlib.util
import json
import os
import re
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DATA = ["tasks", "tools", "guidance", "templates", "traces/samples", "traces/schema"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built the way `make wheel` does it: the source archive first, the wheel from that."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = out.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


@pytest.mark.parametrize("folder", DATA)
def test_it_holds_the_data_byte_for_byte(unpacked: Path, folder: str) -> None:
    sources = [path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sources, f"{folder}/ is empty"
    for source in sources:
        packaged = unpacked / "d2k_agent" / "_data" / source.relative_to(ROOT)
        assert packaged.read_bytes() == source.read_bytes(), source


def test_a_tools_executable_stays_executable(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        modes = {entry.filename: entry.external_attr >> 16 for entry in archive.infolist()}
    for source in (ROOT / "tools").glob("*/bin/*"):
        mode = modes[f"d2k_agent/_data/{source.relative_to(ROOT).as_posix()}"]
        assert bool(mode & stat.S_IXUSR) == bool(source.stat().st_mode & stat.S_IXUSR), source


def test_it_holds_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names} == {"d2k_agent", "d2k_agent-0.1.0.dist-info"}
    data = {"/".join(name.split("/")[2:4]) for name in names if name.startswith("d2k_agent/_data/traces/")}
    assert data <= {"traces/samples", "traces/schema"}
    assert not [name for name in names if name.endswith(".pyc") or "/tests/" in name or "/runs/" in name]


def test_what_was_written_beside_the_data_stays_out_of_a_wheel_that_is_built_from_the_checkout(tmp_path: Path) -> None:
    """No source archive lies between, which leaves out what git ignores."""
    sources = ("traces/samples/muon/run.json", "traces/samples/muon/candidates/a.py", "tasks/scores/config.json")
    written = ("traces/samples/muon/scores/20300101.json", "tasks/muon/__pycache__/check.cpython-311.pyc")
    for name in (*sources, *written):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    config = {"data": {"tasks": "data/tasks", "traces/samples": "data/traces/samples"}}
    data: dict[str, dict[str, str]] = {"force_include": {}}
    module.PackagedData(str(tmp_path), config, None, None, str(tmp_path), "wheel").initialize("standard", data)
    assert data["force_include"] == {str(tmp_path / name): f"data/{name}" for name in sources}


def test_it_holds_every_file_of_the_package(unpacked: Path) -> None:
    def files(folder: Path) -> set[Path]:
        found = {path.relative_to(folder) for path in (folder / "d2k_agent").rglob("*") if path.is_file()}
        return {path for path in found if not {"_data", "__pycache__"} & set(path.parts)}

    assert files(unpacked) == files(ROOT)


def test_its_metadata_name_the_command_the_pin_and_the_licence(unpacked: Path) -> None:
    info = unpacked / "d2k_agent-0.1.0.dist-info"
    fields = email.message_from_string((info / "METADATA").read_text(encoding="utf-8"))
    requires = fields.get_all("Requires-Dist", [])
    assert "litellm==1.110.2" in requires
    assert not [line for line in requires if line.startswith(("torch", "triton")) and "extra == 'eval'" not in line]
    assert fields["License-Expression"] == "Apache-2.0"
    assert (info / "licenses" / "LICENSE").is_file()
    assert "d2k-agent = d2k_agent.cli:main" in (info / "entry_points.txt").read_text(encoding="utf-8")


def test_pip_installs_it_as_the_readme_says(wheel: Path, tmp_path: Path) -> None:
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(tmp_path)]
    done = subprocess.run([*install, str(wheel)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    command = [sys.executable, str(tmp_path / "bin" / "d2k-agent"), "--version"]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ran.stdout == "d2k-agent 0.1.0\n", ran.stderr


def test_the_name_of_the_wheel_and_its_extra_are_those_in_the_readme(wheel: Path, unpacked: Path) -> None:
    assert f'pip install "{wheel.name}[eval]"' in (ROOT / "README.md").read_text(encoding="utf-8")
    fields = email.message_from_string(next(unpacked.glob("*.dist-info/METADATA")).read_text(encoding="utf-8"))
    optional = [line.partition(";")[0] for line in fields.get_all("Requires-Dist", []) if "extra == 'eval'" in line]
    assert sorted(re.split(r"\W", line)[0] for line in optional) == ["numpy", "torch", "triton"]


def on_bare_python(site: Path, folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run code against the unpacked wheel with the standard library and no site-packages at all."""
    program = f"import sys; sys.path.insert(0, {str(site)!r}); sys.dont_write_bytecode = True\n{code}"
    command = [sys.executable, "-I", "-S", "-c", program]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_the_wire_types_import_without_torch_or_any_library(unpacked: Path, tmp_path: Path) -> None:
    done = on_bare_python(unpacked, tmp_path, "import d2k_agent.contract, d2k_agent.isolation, d2k_agent.launchers")
    assert done.returncode == 0, done.stderr


def test_it_finds_its_tasks_in_an_empty_folder_on_bare_python(unpacked: Path, tmp_path: Path) -> None:
    code = "from d2k_agent.cli import main; sys.exit(main(['tasks', 'list', '--json']))"
    done = on_bare_python(unpacked, tmp_path, code)
    assert done.returncode == 0, done.stderr
    assert "muon" in {task["slug"] for task in json.loads(done.stdout)}
