"""Names and their values while a source is walked: one scope a function, flow-sensitive inside it."""

from __future__ import annotations

from dataclasses import dataclass, field

from d2k_agent.evaluator.rules.values import UNKNOWN, Value, join


@dataclass
class Scope:
    """The names of one function, class body or module. `local` says which names belong to it; None means all."""

    values: dict[str, Value] = field(default_factory=dict)
    local: set[str] | None = None
    parent: Scope | None = None
    foreign: set[str] = field(default_factory=set)
    """Names declared global or nonlocal."""
    fallback: dict[str, Value] = field(default_factory=dict)
    """Names that the module binds later, as the round before saw them."""

    def lookup(self, name: str) -> Value | None:
        """The value of a name here or in an enclosing scope; None when nobody in the source binds it."""
        if name in self.values and name not in self.foreign:
            return self.values[name]
        if self.local is not None and name in self.local:
            return UNKNOWN
        return self.parent.lookup(name) if self.parent is not None else self.fallback.get(name)

    def settled(self, name: str) -> bool:
        """True where a function or comprehension owns the name: it never means what the module or Python means."""
        if self.local is not None and name in self.local:
            return True
        if self.local is None and name in self.values:
            return False
        return self.parent is not None and self.parent.settled(name)

    def in_class(self, name: str) -> bool:
        """True where a class body binds the name, perhaps after its use."""
        if self.parent is None or (self.local is not None and name in self.local):
            return False
        return (self.local is None and name in self.values) or self.parent.in_class(name)

    def bind(self, name: str, value: Value) -> None:
        """Bind a name from here on."""
        self.values[name] = value

    def branch(self) -> Scope:
        """A copy in which a branch of the control flow can be walked."""
        return Scope(dict(self.values), self.local, self.parent, self.foreign, self.fallback)

    def merge(self, *branches: Scope) -> None:
        """Go on after branches: a name has any of the values that it had at their ends."""
        merged: dict[str, Value] = {}
        for branch in branches:
            for name, value in branch.values.items():
                merged[name] = join(merged[name], value) if name in merged else value
        self.values = merged
