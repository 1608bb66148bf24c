"""Loops of interpreted kernels, of which a sample of trips is followed.

The interpreter rewrites a kernel's syntax tree before it runs; here `for x in range(...)` becomes
`for x in _d2k_trips(range(...))`. Trips between two followed ones are made up for where the loop adds an invariant to a
variable (`pointer += step`, `pointer = tl.advance(pointer, steps)`); what else it carries on is marked as not real
afterwards. A loop in which a branch or a bound rests on what it carries is followed in full; where one rests on the
number of the trip, more trips are followed.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from triton.runtime import interpreter

from d2k_agent.evaluator.modelling.counting import Meter
from d2k_agent.evaluator.modelling.sampling import choose_trips

STALE = "only a sample of a loop's trips was followed"
_MOST_REPEATS = 4096
_NAMES = _TRIPS, _JUMP, _AGAIN, _STALE = "_d2k_trips", "_d2k_jump", "_d2k_again", "_d2k_stale"


def install(meter: Meter) -> None:
    """Have kernels of this process rewritten so, before any of them is. Triton's own library is left as it is."""
    state = _State(meter)
    # The interpreter gives its own globals to the functions that it rewrites.
    for name, function in zip(_NAMES, (state.trips, state.jump, state.again, state.stale), strict=True):
        setattr(interpreter, name, function)
    plain, sampling = interpreter.ASTTransformer(), _Transformer()

    def transform(rewriter: Any, source: str) -> ast.AST:
        ours = not str(rewriter.fn.__module__).startswith("triton.")
        tree: ast.AST = (sampling if ours else plain).visit(ast.parse(source))
        ast.fix_missing_locations(tree)
        ast.increment_lineno(tree, rewriter.def_file_lineno - 1)
        return tree

    interpreter.FunctionRewriter._transform_ast = transform  # noqa: SLF001


class _State:
    """What rewritten kernels call."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._skipped = 0
        """Trips between the one at work and the one that was followed before it."""
        self._left_out = False
        """Whether the loop that ended last left trips out."""

    def trips(self, loop: Iterable[Any], branched: bool) -> Iterator[Any]:
        """The trips to follow; whatever is counted in one counts as often as the trip stands for others.

        `branched` as choose_trips() has it.
        """
        if not isinstance(loop, range):
            self._skipped = 0
            yield from loop
            self._left_out = False
            return
        followed, outside = -1, self._meter.weight
        chosen = choose_trips(len(loop), self._meter.generator, branched)
        for trip, weight in chosen:
            self._skipped = trip - followed - 1
            followed = trip
            self._meter.weight = outside * weight
            try:
                yield loop[trip]
            finally:
                self._meter.weight = outside
        self._left_out = len(chosen) < len(loop)

    def jump(self, value: Any, step: Callable[[], Any]) -> Any:
        """The variable as the skipped trips would have left it."""
        if not self._skipped:
            return value
        with self._meter.paused():
            return value + step() * self._skipped

    def again(self) -> Iterator[int]:
        """A trip for each that was skipped, uncounted."""
        with self._meter.paused():
            yield from range(min(self._skipped, _MOST_REPEATS))

    def stale(self, value: Any) -> Any:
        """A variable behind a loop: not real from now on, where that left trips out."""
        handle = getattr(value, "handle", None)
        if self._left_out and isinstance(handle, interpreter.TensorHandle) and handle.data.size:
            fresh = interpreter.TensorHandle(handle.data, handle.dtype)
            fresh.__dict__.update(handle.__dict__)
            fresh.absent = handle.absent or STALE
            return interpreter.tl.core.tensor(fresh, value.type)
        return value


class _Transformer(interpreter.ASTTransformer):  # type: ignore[misc]
    """The interpreter's own rewriting, and loops as this module has them."""

    def visit_For(self, node: ast.For) -> Any:  # noqa: N802 - ast's name
        carried = _Carried(node)
        # Before the interpreter's own rewriting, which wraps values.
        ahead = [made_up for statement in node.body for made_up in _ahead(statement, carried)]
        self.generic_visit(node)
        if carried.steers:
            return node
        node.iter = _call(_TRIPS, node.iter, ast.Constant(carried.branches))
        node.body = [*ahead, *node.body]
        stale = sorted(carried.names - {name.id for name in _names_of(ahead) if _is_stored(name)})
        return [node, *(ast.Assign([ast.Name(name, ast.Store())], _call(_STALE, _load(name))) for name in stale)]


class _Carried:
    """What a loop carries from one trip to the next, and whether a branch or a bound inside rests on it."""

    def __init__(self, loop: ast.For) -> None:
        order = [name for statement in loop.body for name in _names(statement)]
        target = {name.id for name in ast.walk(loop.target) if isinstance(name, ast.Name)}
        assigned = {name.id for name in order if _is_stored(name)} - target
        self.varying = assigned | target
        seen: set[str] = set()
        self.names: set[str] = set()
        for name in order:
            if _is_stored(name):
                seen.add(name.id)
            elif name.id in assigned and name.id not in seen:
                self.names.add(name.id)
        deciding = _closure(_steering(loop), _sources(loop))
        self.steers, self.branches = bool(deciding & self.names), bool(deciding & target)


def _names(statement: ast.stmt) -> list[ast.Name]:
    """Names in the order in which they are evaluated: a value before what it is assigned to."""
    if isinstance(statement, ast.AugAssign):
        target = statement.target
        read = [ast.Name(target.id, ast.Load())] if isinstance(target, ast.Name) else []
        return [*read, *_names_in(statement.value), *_names_in(target)]
    if isinstance(statement, ast.Assign):
        return [*_names_in(statement.value), *(name for target in statement.targets for name in _names_in(target))]
    if isinstance(statement, (ast.If, ast.While)):
        return [*_names_in(statement.test), *_names_of([*statement.body, *statement.orelse])]
    if isinstance(statement, ast.For):
        return [*_names_in(statement.iter), *_names_in(statement.target), *_names_of(statement.body)]
    return _names_in(statement)


def _names_of(body: list[ast.stmt]) -> list[ast.Name]:
    return [name for statement in body for name in _names(statement)]


def _names_in(node: ast.AST) -> list[ast.Name]:
    return [name for name in ast.walk(node) if isinstance(name, ast.Name)]


def _is_stored(name: ast.AST) -> bool:
    return isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)


def _steering(loop: ast.For) -> set[str]:
    """Names that decide which statements of the body run, and how often."""
    found: set[str] = set()
    for node in (inner for statement in loop.body for inner in ast.walk(statement)):
        deciding = getattr(node, "test", None) if isinstance(node, (ast.If, ast.IfExp, ast.While)) else None
        deciding = node.iter if isinstance(node, ast.For) else deciding
        if deciding is not None:
            found |= {name.id for name in _names_in(deciding)}
    return found


def _sources(loop: ast.For) -> dict[str, set[str]]:
    """For each name assigned in the body: the names that its values are made of."""
    found: dict[str, set[str]] = {}
    for node in (inner for statement in loop.body for inner in ast.walk(statement)):
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for name in (name for target in targets for name in _names_in(target)):
                found.setdefault(name.id, set()).update(source.id for source in _names_in(node.value))
    return found


def _closure(names: set[str], sources: dict[str, set[str]]) -> set[str]:
    reached, open_names = set(names), list(names)
    while open_names:
        for source in sources.get(open_names.pop(), set()) - reached:
            reached.add(source)
            open_names.append(source)
    return reached


def _ahead(statement: ast.stmt, carried: _Carried) -> list[ast.stmt]:
    """What makes up for skipped trips of this statement of a loop's body; nothing where that cannot be told."""
    target: ast.expr
    step: ast.expr | None
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
        target, step = statement.target, statement.value
    elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        target, step = statement.targets[0], _added(statement.value, statement.targets[0].id)
        if step is None and _advances(statement):
            repeat = ast.For(ast.Name("_d2k_turn", ast.Store()), _call(_AGAIN), [copy.deepcopy(statement)], [])
            return [repeat] if not _varies(statement.value, carried, target.id) else []
    else:
        return []
    if step is None or not isinstance(target, ast.Name) or target.id not in carried.names:
        return []
    if _varies(step, carried, ""):
        return []
    nothing = ast.arguments([], [], None, [], [], None, [])
    jumped = _call(_JUMP, _load(target.id), ast.Lambda(nothing, copy.deepcopy(step)))
    return [ast.Assign([ast.Name(target.id, ast.Store())], jumped)]


def _added(value: ast.expr, name: str) -> ast.expr | None:
    """`step` of an expression `name + step`."""
    adds = isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add)
    if adds and isinstance(value.left, ast.Name) and value.left.id == name:  # type: ignore[attr-defined]
        return value.right  # type: ignore[attr-defined,no-any-return]
    return None


def _advances(statement: ast.Assign) -> bool:
    call, target = statement.value, statement.targets[0]
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "advance"):
        return False
    first = call.args[0] if call.args else None
    return isinstance(first, ast.Name) and isinstance(target, ast.Name) and first.id == target.id


def _varies(value: ast.expr, carried: _Carried, itself: str) -> bool:
    return any(name.id in carried.varying and name.id != itself for name in _names_in(value))


def _load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _call(name: str, *values: ast.expr) -> ast.Call:
    return ast.Call(_load(name), list(values), [])
