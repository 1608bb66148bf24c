"""One candidate's source under analysis: what is known of its functions, classes and module names, round by round.

Every round walks the whole source. Arguments and results found in one round are what the next one starts from, so that
a tensor is followed through calls; the first round knows nothing, and each later one knows at least as much.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from d2k_agent.evaluator.rules.facts import Fact
from d2k_agent.evaluator.rules.scopes import Scope
from d2k_agent.evaluator.rules.shadowing import PYTHON_NAMES, settled_names
from d2k_agent.evaluator.rules.values import UNKNOWN, Kind, Value, contains_tensor, join

K = TypeVar("K")
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass
class Round:
    """What one walk over the source found."""

    facts: list[Fact] = field(default_factory=list)
    read: set[ast.AST] = field(default_factory=set)
    """Statements, expressions and patterns that were walked."""
    arguments: dict[tuple[ast.AST, str], Value] = field(default_factory=dict)
    results: dict[ast.AST, Value] = field(default_factory=dict)
    attributes: dict[tuple[ast.AST, str], Value] = field(default_factory=dict)
    module: dict[str, Value] = field(default_factory=dict)
    """The module's names after its last statement."""
    stores: dict[str, Value] = field(default_factory=dict)
    """What functions assign to names of the module."""
    escaped: set[ast.AST] = field(default_factory=set)
    unbound: set[ast.AST] = field(default_factory=set)
    """Methods that are taken of a class, so that `self` may be anything."""
    class_values: set[ast.AST] = field(default_factory=set)
    """Classes that are handed on, so that their methods may be taken out of sight."""
    kernels: set[ast.AST] = field(default_factory=set)
    references: dict[ast.AST | None, set[ast.AST]] = field(default_factory=lambda: defaultdict(set))
    named_calls: dict[ast.AST | None, set[str]] = field(default_factory=lambda: defaultdict(set))
    launching: set[ast.AST | None] = field(default_factory=set)


class Program:
    """The source, the round being walked (`now`) and the round before it (`before`)."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.before, self.now = Round(), Round()
        self.own_names = _own_names(tree)
        self.own_methods = _own_methods(tree)
        self.mentioned = _mentioned(tree)
        self.settled = settled_names(tree)
        self.renames_itself = _renames_itself(tree)
        self._global_names = _global_names(tree)
        self.set_attributes = _set_attributes(tree)
        self.texts = _texts(tree)
        self.fields = _fields(tree)
        self.classes: dict[str, list[ast.ClassDef]] = defaultdict(list)
        self.host_methods: frozenset[str] = frozenset()
        self.methods: dict[str, list[ast.AST]] = defaultdict(list)
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self.methods[node.name].append(node)
            elif isinstance(node, ast.ClassDef):
                self.classes[node.name].append(node)

    def advance(self) -> bool:
        """Start the next round; False when the last one found nothing that the one before it had not."""
        kept = (
            "arguments",
            "results",
            "attributes",
            "module",
            "stores",
            "escaped",
            "unbound",
            "class_values",
            "kernels",
        )
        changed = any(getattr(self.before, name) != getattr(self.now, name) for name in kept)
        self.before, self.now = self.now, Round()
        self.host_methods = self._plain_methods()
        return changed

    def lookup(self, scope: Scope, name: str) -> Value | None:
        """The value of a name; None where it is Python's own, or may be: bound in a branch, deleted, bound too late."""
        value = scope.lookup(name)
        if name not in PYTHON_NAMES or (name in self.settled and not scope.in_class(name)) or scope.settled(name):
            return value
        return value if value is not None and contains_tensor(value) else None

    def defines(self, name: str) -> bool:
        """True where the module may hold a name, or Python does, that no function around its use binds."""
        return self._global_names is None or name in self._global_names or name in PYTHON_NAMES or _special(name)

    def emit(self, fact: Fact) -> None:
        """Note a fact of the current round."""
        self.now.facts.append(fact)

    def merge_argument(self, function: ast.AST, name: str, value: Value) -> None:
        """A call site passes `value` for the parameter `name`."""
        _merge(self.now.arguments, (function, name), value)

    def merge_result(self, function: ast.AST, value: Value) -> None:
        """The function returns `value` somewhere."""
        _merge(self.now.results, function, value)

    def merge_attribute(self, owner: ast.AST, name: str, value: Value) -> None:
        """An instance or the class `owner` gets an attribute."""
        _merge(self.now.attributes, (owner, name), value)

    def merge_global(self, name: str, value: Value) -> None:
        """A function assigns a module's name."""
        _merge(self.now.stores, name, value)

    def module_names(self, found: Round, stores: dict[str, Value] | None = None) -> dict[str, Value]:
        """The module's names as functions see them: after its last statement, or as some function assigned them."""
        names = dict(found.module)
        for name, value in (found.stores if stores is None else stores).items():
            _merge(names, name, value)
        return names

    def argument(self, function: ast.AST, name: str) -> Value:
        """What the round before saw passed for a parameter, if it saw every use of the function."""
        if function in self.before.escaped:
            return UNKNOWN
        return self.before.arguments.get((function, name), UNKNOWN)

    def result(self, function: ast.AST) -> Value:
        """What the round before saw returned."""
        return self.before.results.get(function, UNKNOWN)

    def attribute(self, owner: ast.AST, name: str) -> Value:
        """What the round before saw assigned to an attribute of the candidate's own class."""
        return self.before.attributes.get((owner, name), UNKNOWN)

    def methods_of_values(self, name: str) -> list[ast.AST]:
        """Methods of that name of classes that are handed on: of something unknown, they may be taken unbound."""
        classes = (node for node in self.before.class_values if isinstance(node, ast.ClassDef))
        return [part for node in classes for part in node.body if getattr(part, "name", "") == name]

    def is_kernel(self, value: Value) -> bool:
        """True for a kernel, and for a plain function that is made one elsewhere."""
        return value.kind is Kind.KERNEL or (value.kind is Kind.FUNCTION and value.node in self.before.kernels)

    def _plain_methods(self) -> frozenset[str]:
        """Names of methods of the candidate's classes that are no kernels, no properties either."""
        found = ((name, value) for (_, name), value in self.before.attributes.items() if value.kind is Kind.FUNCTION)
        return frozenset(name for name, value in found if value.path != "property" and not self.is_kernel(value))


def parameters(node: FunctionNode) -> list[str]:
    """Names of a function's parameters that take one argument each, in order; keyword-only ones last."""
    return [argument.arg for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]


def local_names(node: FunctionNode) -> set[str]:
    """Names bound in a function's own scope, without those it declares global or nonlocal."""
    spread = {argument.arg for argument in (node.args.vararg, node.args.kwarg) if argument is not None}
    return _bound([node.body] if isinstance(node, ast.Lambda) else node.body, {*parameters(node), *spread})


def comprehension_names(node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> set[str]:
    """Names that a comprehension's own scope binds."""
    parts = (part for generator in node.generators for part in ast.walk(generator.target))
    return {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}


def _bound(body: Sequence[ast.AST], found: set[str]) -> set[str]:
    """`found` and the names that `body` binds in its own scope."""
    foreign: set[str] = set()
    queue = list(body)
    while queue:
        inner = queue.pop()
        if isinstance(inner, (ast.Global, ast.Nonlocal)):
            foreign.update(inner.names)
        elif isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Load):
            found.add(inner.id)
        elif isinstance(inner, (ast.Import, ast.ImportFrom)):
            found.update((alias.asname or alias.name).partition(".")[0] for alias in inner.names)
        elif isinstance(inner, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and inner.name:
            found.add(inner.name)
        elif isinstance(inner, ast.MatchMapping) and inner.rest:
            found.add(inner.rest)
        if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(inner.name)
        elif isinstance(inner, ast.comprehension):
            queue.extend([inner.iter, *inner.ifs])  # its targets are names of the comprehension alone
        elif not isinstance(inner, ast.Lambda):
            queue.extend(ast.iter_child_nodes(inner))
    return found - foreign


def _merge(table: dict[K, Value], key: K, value: Value) -> None:
    table[key] = join(table[key], value) if key in table else value


def _own_names(tree: ast.Module) -> frozenset[str]:
    """Attribute names that the candidate defines: in class bodies, and by assigning to an attribute."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    names.add(inner.name)
                names.update(part.id for part in ast.walk(inner) if isinstance(part, ast.Name) and _stored(part))
        elif isinstance(node, ast.Call):
            names.update(_named_fields(node))
    return frozenset(names)


def _texts(tree: ast.Module) -> dict[str, str]:
    """Names that the module gives a text that is written out, and that nothing else anywhere binds."""
    bound: Counter[str] = Counter()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound[node.id] += 1
        elif not isinstance(node, (ast.Name, ast.Attribute, ast.Constant, ast.keyword)):
            for _, value in ast.iter_fields(node):
                bound.update(part for part in (value if isinstance(value, list) else [value]) if isinstance(part, str))
    return {
        node.targets[0].id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        if bound[node.targets[0].id] == 1
    }


def _set_attributes(tree: ast.Module) -> frozenset[str]:
    """Names of attributes that some statement or setattr() sets, of whatever."""
    calls = (
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "setattr"
    )
    named = (argument.value for call in calls for argument in call.args if isinstance(argument, ast.Constant))
    stored = (
        node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    )
    return frozenset([*stored, *(name for name in named if isinstance(name, str))])


def _fields(tree: ast.Module) -> frozenset[str]:
    """Names that classes of the candidate's give to `self`, or write in their bodies."""
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    inside = (part for node in classes for part in ast.walk(node))
    of_self = {
        node.attr for node in inside if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "self"
    }
    targets = (part.target for node in classes for part in node.body if isinstance(part, ast.AnnAssign))
    return frozenset(of_self | {target.id for target in targets if isinstance(target, ast.Name)})


def _own_methods(tree: ast.Module) -> frozenset[str]:
    """Names of the methods of the candidate's classes."""
    return frozenset(
        inner.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for inner in node.body
        if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef))
    )


def _named_fields(node: ast.Call) -> set[str]:
    """Fields that a namedtuple(...) or SimpleNamespace(...) call gives its value."""
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if called == "SimpleNamespace":
        return {keyword.arg for keyword in node.keywords if keyword.arg}
    if called not in ("namedtuple", "NamedTuple"):
        return set()
    texts = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    return {name for text in texts for name in text.replace(",", " ").split()}


def _global_names(tree: ast.Module) -> frozenset[str] | None:
    """Names that some statement gives to the module; None where a star import may give it any."""
    if any(isinstance(node, ast.alias) and node.name == "*" for node in ast.walk(tree)):
        return None
    declared = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    return frozenset(_bound(tree.body, set()) | declared)


def _special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _renames_itself(tree: ast.Module) -> bool:
    """True where anything but a look at it mentions `__name__`, so that what only a script would run may run."""
    return any(
        "__name__" in (value if isinstance(value, list) else [value])
        for node in ast.walk(tree)
        if not isinstance(node, (ast.Constant, ast.Attribute))
        and not (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
        for _, value in ast.iter_fields(node)
    )


def _stored(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _mentioned(tree: ast.Module) -> frozenset[str]:
    return frozenset(
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    )
