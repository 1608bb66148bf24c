"""Data is found in an installed wheel first, in a checkout else, and a broken installation says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from d2k_agent.catalog import data_root, guidance_dir, samples_dir, schema_dir, tasks_dir, tools_dir
from d2k_agent.errors import MachineError


def test_a_checkout_holds_the_data_beside_the_package(tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    assert data_root(tmp_path / "d2k_agent") == tmp_path


def test_packaged_data_comes_first(tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    (tmp_path / "d2k_agent" / "_data" / "tasks").mkdir(parents=True)
    assert data_root(tmp_path / "d2k_agent") == tmp_path / "d2k_agent" / "_data"


def test_neither_is_a_broken_installation(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="install it again"):
        data_root(tmp_path / "d2k_agent")


def test_all_folders_lie_below_one_root() -> None:
    root = data_root()
    assert {tasks_dir(), tools_dir(), guidance_dir()} == {root / "tasks", root / "tools", root / "guidance"}
    assert {schema_dir(), samples_dir()} == {root / "traces" / "schema", root / "traces" / "samples"}
    assert sorted(path.name for path in schema_dir().glob("*.json"))[:1] == ["config.schema.json"]
