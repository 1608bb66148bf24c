"""Size, names and the environment: rules of the package that a reader can see in any one file."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.source import modules

MOST_LINES_OF_A_FILE = 400
MOST_LINES_OF_A_FUNCTION = 60
NO_NOUNS = {"utils", "util", "helpers", "helper", "misc", "common"}
# Who reads the environment, and why. What a process writes into its own environment for torch or triton is no reading.
MAY_READ_THE_ENVIRONMENT = {
    "d2k_agent/app/surroundings.py": "reads it once for the whole program",
    "d2k_agent/evaluator/start.py": "the GPU that is asked for counts what a variable leaves visible on that machine",
    "d2k_agent/evaluator/profiling/session.py": "where that machine's profiler and libraries are",
    "d2k_agent/evaluator/candidate.py": "a candidate's process empties its environment down to an allow-list",
}


def test_no_file_is_long() -> None:
    lengths = {module.path: module.text.count("\n") for module in modules()}
    assert {path: lines for path, lines in lengths.items() if lines > MOST_LINES_OF_A_FILE} == {}


def test_no_function_is_long() -> None:
    long = {}
    for module in modules():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines >= MOST_LINES_OF_A_FUNCTION:
                    long[f"{module.path}:{node.lineno} {node.name}"] = lines
    assert long == {}


def test_every_module_is_named_for_what_it_holds() -> None:
    assert [module.path for module in modules() if NO_NOUNS & set(module.name.split("."))] == []


def test_every_package_and_module_says_what_it_is() -> None:
    assert [module.path for module in modules() if ast.get_docstring(module.tree) is None] == []


def test_nobody_reads_the_environment_but_app() -> None:
    assert readers_of_the_environment() - set(MAY_READ_THE_ENVIRONMENT) == set()


def test_the_list_of_readers_is_no_longer_than_needed() -> None:
    assert set(MAY_READ_THE_ENVIRONMENT) - readers_of_the_environment() == set()


@pytest.mark.parametrize(
    "text", ["os.environ['A'] = '1'", "del os.environ['A']", "os.environ.pop('A', None)", "os.environ.update({})"]
)
def test_writing_the_environment_is_no_reading(text: str) -> None:
    assert not reads_the_environment(ast.parse(text))


@pytest.mark.parametrize(
    "text",
    ["os.environ['A']", "x = os.environ.pop('A')", "f(os.environ)", "os.getenv('A')", "from os import environ"],
)
def test_a_reading_is_seen(text: str) -> None:
    assert reads_the_environment(ast.parse(text))


ENVIRONMENT = {"environ", "environb", "getenv", "getenvb"}


def readers_of_the_environment() -> set[str]:
    return {module.path for module in modules() if reads_the_environment(module.tree)}


def reads_the_environment(tree: ast.Module) -> bool:
    written = {id(node) for node in written_objects(tree)}
    return any(
        isinstance(node, ast.ImportFrom) and node.module == "os" and ENVIRONMENT & {alias.name for alias in node.names}
        for node in ast.walk(tree)
    ) or any(is_environment(node) and id(node) not in written for node in ast.walk(tree))


def is_environment(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="os"), attr=name):
            return name in ENVIRONMENT
    return False


def written_objects(tree: ast.Module) -> Iterator[ast.expr]:
    """X in `X[...] = `, `del X[...]`, and in `X.update(...)` or `X.pop(...)` as a statement of their own."""
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=value, ctx=ast.Store() | ast.Del()):
                yield value
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=value, attr="update" | "pop"))):
                yield value
