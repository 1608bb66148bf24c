"""The allow-list in force: the defaults, changed by a task's rules.toml.

[modules]     allow = ["numpy"]                    deny = ["time"]
[torch]       allow = ["torch.arange"]             deny = ["torch.tensor"]
[triton]      allow = ["triton.testing.do_bench"]  deny = ["triton.language.inline_asm_elementwise"]
[tensor]      allow = ["item"]                     deny = ["copy_"]
[attributes]  allow = ["rank", "ws_ptrs"]          (attributes of arguments that are not tensors)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from d2k_agent.evaluator.rules import allow_list, language

_SECTIONS = ("modules", "torch", "triton", "tensor", "attributes")


@dataclass(frozen=True)
class Policy:
    """What is allowed under one task. `modules` maps a module to the names allowed of it, None meaning all."""

    modules: Mapping[str, frozenset[str] | None]
    torch: frozenset[str]
    triton: frozenset[str]
    triton_denied: frozenset[str]
    tensor: frozenset[str]
    attributes: frozenset[str]

    def imports(self, module: str) -> bool:
        """True where a module may be imported."""
        return self.is_module(module) or _below(module, allow_list.TRITON_PREFIXES)

    def is_module(self, path: str) -> bool:
        """True where a full name is certainly that of a module, or only leads to what may be used, as a module does."""
        if path in self.modules or path in allow_list.TORCH_MODULES | allow_list.TRITON_MODULES:
            return True
        if path not in self.triton and _on_the_way(path, self.triton):
            return True
        return _below(path, allow_list.TRITON_PREFIXES) and language.is_module(path)

    def uses(self, path: str) -> bool:
        """True where the full name `path` may be used, or names a module on the way to one that may be."""
        owner, _, name = path.rpartition(".")
        if name in allow_list.LABELS:
            return self.uses(owner)
        root = path.partition(".")[0]
        if root == "torch":
            return self._torch(path)
        if root == "triton":
            return self._triton(path)
        module, _, name = path.rpartition(".")
        if path in self.modules:
            return True
        while module and module not in self.modules:
            module, _, name = module.rpartition(".")
        allowed = self.modules.get(module, frozenset())
        return allowed is None or name in allowed

    def _torch(self, path: str) -> bool:
        if path in self.torch or path in allow_list.TORCH_MODULES:
            return True
        owner, _, name = path.rpartition(".")
        return owner == "torch.Tensor" and name in self.tensor  # counts as the method

    def _triton(self, path: str) -> bool:
        if path in self.triton_denied:
            return False
        if path in self.triton or path in allow_list.TRITON_MODULES or _on_the_way(path, self.triton):
            return True
        if not _below(path, allow_list.TRITON_PREFIXES):
            return False
        parts = path.split(".")[2:]
        hidden = any(part in allow_list.TRITON_DENIED or part.startswith("_") for part in parts)
        return not hidden and language.is_tritons(path)


def policy_of(rules: Mapping[str, Any]) -> Policy:
    """The policy of a parsed rules.toml. Raises ValueError naming what it does not understand."""
    for section, content in rules.items():
        if section not in _SECTIONS:
            raise ValueError(f"rules.toml: [{section}] is unknown; sections are {', '.join(_SECTIONS)}")
        if not isinstance(content, Mapping) or set(content) - {"allow", "deny"}:
            raise ValueError(f"rules.toml: [{section}] holds lists called allow and deny, nothing else")
    modules: dict[str, frozenset[str] | None] = dict(allow_list.MODULES)
    modules.update(dict.fromkeys(_names(rules, "modules", "allow")))
    for name in _names(rules, "modules", "deny"):
        modules.pop(name, None)
    return Policy(
        modules=modules,
        torch=_changed(allow_list.TORCH, rules, "torch"),
        triton=_changed(allow_list.TRITON, rules, "triton"),
        triton_denied=_names(rules, "triton", "deny"),
        tensor=_changed(allow_list.TENSOR, rules, "tensor"),
        attributes=_changed(allow_list.OBJECT_ATTRIBUTES, rules, "attributes"),
    )


def _names(rules: Mapping[str, Any], section: str, key: str) -> frozenset[str]:
    names = rules.get(section, {}).get(key, [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"rules.toml: {key} in [{section}] must be a list of names")
    return frozenset(names)


def _changed(default: frozenset[str], rules: Mapping[str, Any], section: str) -> frozenset[str]:
    return (default | _names(rules, section, "allow")) - _names(rules, section, "deny")


def _below(path: str, prefixes: frozenset[str]) -> bool:
    return any(path == prefix or path.startswith(f"{prefix}.") for prefix in prefixes)


def _on_the_way(path: str, allowed: frozenset[str]) -> bool:
    return any(name.startswith(f"{path}.") for name in allowed)
