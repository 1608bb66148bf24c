"""The agent cannot see what it was not given. An invariant: add to this file, do not weaken it.

For every set of levels, no sentence of a withheld level of a task's guidance and no line of its expert or baseline code
is in the staged workspace. The comparison here is written apart from the product's own (`tasks check`), on purpose.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from d2k_agent.catalog import LEVELS, SHARED_FILES, find_task, guidance_dir, list_tasks, stage

LEVEL_OF = {
    "level_1_high_level_algorithmic_insights": {"L1"},
    "level_2_dataflow_design": {"L2"},
    "level_3_low_level_optimization_tricks": {"L3"},
    "bottleneck": {"L1"},
    "cost_reduction": {"L1", "L2"},
    "conditions": {"L1", "L2", "L3"},
}
CUMULATIVE = [LEVELS[:count] for count in range(4)]
GUIDED = [task.slug for task in list_tasks() if task.guidance]
SHORTEST = 12
"""Shorter lines of code, such as `m = row * BT`, are in anybody's kernel."""
IN_ANY_KERNEL = {
    *("import torch", "import triton", "import triton.language as tl", "@triton.jit"),
    *(task.public_files()["solution.py"].decode().splitlines()[0] for task in list_tasks()),  # the signature of run()
}


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            if key != "supports":  # names of other levels' items: a test of its own looks at these
                yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)


def secrets(guidance: dict[str, Any], given: tuple[str, ...]) -> set[str]:
    """Sentences, names and stage ids that need a level which was not given."""
    parts = [(LEVEL_OF[key], value) for key, value in guidance.items() if key in LEVEL_OF]
    parts += [(LEVEL_OF[key], value) for chain in guidance["cross_level_rationale"] for key, value in chain.items()]
    withheld = [text for needs, value in parts if not needs <= set(given) for text in texts(value)]
    sentences = {sentence.strip(" .") for text in withheld for sentence in re.split(r"(?<=[.;:])\s", text)}
    return {sentence for sentence in sentences if len(sentence) > SHORTEST and sentence not in ("input", "output")}


def code_lines(path: Path) -> set[str]:
    lines = {line.strip() for line in path.read_text(encoding="utf-8").splitlines()}
    coefficients = re.compile(r"\(?-?[\d., -]+\)?,?$")  # the task publishes these numbers
    return {line for line in lines - IN_ANY_KERNEL if len(line) >= SHORTEST and not coefficients.match(line)}


def workspace(folder: Path) -> str:
    """Everything that is staged, file names included, JSON with its escapes resolved."""
    parts = []
    for path in sorted(folder.rglob("*")):
        text = path.read_text(encoding="utf-8")
        parts += [path.name, text]
        if path.suffix == ".json":
            parts += [*texts(json.loads(text)), json.dumps(json.loads(text), ensure_ascii=False)]
    return "\n".join(parts)


@pytest.mark.parametrize("levels", CUMULATIVE, ids=lambda levels: "+".join(levels) or "none")
@pytest.mark.parametrize("slug", GUIDED)
def test_nothing_withheld_is_in_the_workspace(tmp_path: Path, slug: str, levels: tuple[str, ...]) -> None:
    task = find_task(slug)
    stage(task, levels, tmp_path / "workspace")
    seen = workspace(tmp_path / "workspace")
    withheld = secrets(task.guidance_data(), levels)
    assert withheld or levels == LEVELS
    assert [secret for secret in withheld if secret in seen] == []
    for source in ("expert.py", "baseline.py"):
        lines = code_lines(guidance_dir() / slug / source)
        assert len(lines) > 40
        assert [line for line in lines if line in seen] == []


@pytest.mark.parametrize("levels", CUMULATIVE, ids=lambda levels: "+".join(levels) or "none")
@pytest.mark.parametrize("slug", GUIDED)
def test_exactly_the_declared_files_are_staged(tmp_path: Path, slug: str, levels: tuple[str, ...]) -> None:
    task = find_task(slug)
    out = tmp_path / "workspace"
    stage(task, levels, out)
    assert {path.name for path in out.rglob("*")} == set(SHARED_FILES) | ({"guidance.json"} if levels else set())
    for name in SHARED_FILES:
        assert (out / name).read_bytes() == (task.folder / name).read_bytes()


@pytest.mark.parametrize("slug", GUIDED)
def test_what_is_given_is_complete(tmp_path: Path, slug: str) -> None:
    task = find_task(slug)
    stage(task, LEVELS, tmp_path / "workspace")
    assert json.loads((tmp_path / "workspace" / "guidance.json").read_text()) == task.guidance_data()
    stage(task, ("L1",), tmp_path / "first")
    first = json.loads((tmp_path / "first" / "guidance.json").read_text())
    assert (
        first["level_1_high_level_algorithmic_insights"]
        == task.guidance_data()["level_1_high_level_algorithmic_insights"]
    )


def test_the_comparison_finds_what_is_planted(tmp_path: Path) -> None:
    task = find_task("muon")
    stage(task, ("L1",), tmp_path / "workspace")
    sentence = next(iter(secrets(task.guidance_data(), ("L1",))))
    line = next(iter(code_lines(guidance_dir() / "muon" / "expert.py")))
    (tmp_path / "workspace" / "notes.txt").write_text(f"{sentence}\n    {line}\n")
    seen = workspace(tmp_path / "workspace")
    assert sentence in seen
    assert line in seen


@pytest.mark.parametrize("word", ["restart", "compos", "gram", "triang", "symmetr", "commut", "segment"])
def test_the_shared_files_of_muon_do_not_hint_at_the_design(word: str) -> None:
    for name, content in find_task("muon").public_files().items():
        assert word not in content.decode().lower(), f"{name} says {word!r}"


@pytest.mark.parametrize("word", ["warp", "in registers", "rounds", "packed", "monoton", "histogram", "atomic", "lane"])
def test_the_shared_files_of_moe_grouped_topk_do_not_hint_at_the_design(word: str) -> None:
    for name, content in find_task("moe_grouped_topk").public_files().items():
        assert word not in content.decode().lower(), f"{name} says {word!r}"


@pytest.mark.parametrize(
    "word",
    [
        *("dedup", "histogram", "parity", "epoch", "push", "chunk", "halves", "prefix sum"),
        *("drew", "ticket", "lower number", "receipt", "side by side", "when they start", "when it start"),
    ],
)
def test_the_shared_files_of_ep_dispatch_fp8_do_not_hint_at_the_design(word: str) -> None:
    for name, content in find_task("ep_dispatch_fp8").public_files().items():
        assert word not in content.decode().lower(), f"{name} says {word!r}"


def test_hidden_files_are_not_public() -> None:
    task = find_task("muon")
    bundle = task.bundle()
    assert set(bundle.public) == set(task.public_files()) == set(SHARED_FILES)
    assert set(bundle.hidden) == {"workloads.json", "check.py", "rules.toml"}
    for variation in json.loads(bundle.hidden["workloads.json"])["variations"]:
        for text in bundle.public.values():
            assert variation["name"] not in text
            assert variation["workload"]["label"] not in text
