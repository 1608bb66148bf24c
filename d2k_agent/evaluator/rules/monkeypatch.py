"""static.monkeypatch, static.subclassing: changes of what the candidate does not own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import torch

from d2k_agent.contract import Violation
from d2k_agent.evaluator.rules.allow_list import BASE_CLASSES, KERNEL_ATTRIBUTES, KERNEL_TENSOR_METHODS
from d2k_agent.evaluator.rules.facts import (
    AttributeStore,
    AttributeUse,
    BuiltinUse,
    Call,
    ClassDefinition,
    ExternalUse,
    Fact,
    ItemStore,
)
from d2k_agent.evaluator.rules.machinery import MACHINERY
from d2k_agent.evaluator.rules.policy import Policy
from d2k_agent.evaluator.rules.tensor_model import TYPE_OF
from d2k_agent.evaluator.rules.values import UNSURE, Kind

_SET_BEFORE_A_LAUNCH = frozenset(["block_shape", "strides", "layout"])
"""Fields of descriptors, which a configuration's hook may change."""
_OF_TRITONS_TYPES = frozenset(
    "ASTSource CompiledKernel FP_TYPES KIND OTHER_TYPES SIGNEDNESS SINT_TYPES STANDARD_FP_TYPES UINT_TYPES"
    " add_pre_run_hook cache_key cache_key_part cache_results check_disk_cache codegen_name configs_timings"
    " configs_top_k constexprs create_binder device_caches do_bench do_not_specialize do_not_specialize_on_alignment"
    " early_config_prune exponent_bias fp_mantissa_width get_capture_scope get_int_max_value get_int_min_value hash"
    " int_bitwidth int_signedness is_bool is_const is_dtype is_fp8e4b15 is_fp8e4b8 is_fp8e4nv is_fp8e5 is_fp8e5b16"
    " is_gluon is_int1 is_int16 is_int32 is_int64 is_int8 is_int_unsigned is_standard_floating is_uint16 is_uint32"
    " is_uint64 is_uint8 is_void launch_metadata mangle module nargs noinline params parse perf_model post_hook"
    " pre_hook pre_run_hooks preload primitive_bitwidth prune_configs raw_src repr reset_to_zero restore_value scalar"
    " signature src starting_line_number to_ir use_cuda_graph used_global_vals user_defined_post_hook"
    " user_defined_pre_hook value with_element_ty _bench _call_hook _do_bench _do_compile _fn_name _get_src _hash_lock"
    " _pack_args _repr _set_src _src _unsafe_update_src".split()
)
"""Attributes of JITFunction, Autotuner, Heuristics, constexpr, dtype and tensor, and what is kept in them: without
those that change nothing of a kernel and that plans of a candidate's often have (cache, keys, kernel, kind, debug)."""
_OF_OTHERS = (
    frozenset(name for kind in (torch.Tensor, torch.nn.Module, torch) for name in dir(kind))
    | KERNEL_ATTRIBUTES
    | KERNEL_TENSOR_METHODS
    | MACHINERY
    | _OF_TRITONS_TYPES
) - _SET_BEFORE_A_LAUNCH
"""Attributes of tensors, of torch and of Triton's types, one of which a value of unknown type may be."""

_DATA = frozenset(["shape", "size"])
"""Names that plans of a candidate's give plain data. A tensor keeps its shape whatever it is told, its class not."""

_FOREIGN = {
    Kind.EXTERNAL: "something imported",
    Kind.BUILTIN: "a built-in",
    Kind.TENSOR: "a tensor",
    Kind.TENSOR_METHOD: "a tensor's method",
    Kind.KERNEL: "a kernel",
    Kind.LAUNCHER: "a kernel",
    Kind.DTYPE: "a dtype",
}


def foreign_stores(facts: list[Fact], policy: Policy) -> Iterator[Violation]:
    """Attributes and items of what is not the candidate's, or may be not, that are set or deleted; any in kernels."""
    no_types = not _gets_a_type(facts)
    for fact in facts:
        if isinstance(fact, AttributeStore) and fact.plain and no_types and _is_data(fact):
            continue
        if fact.in_kernel and isinstance(fact, (AttributeStore, ItemStore)):
            message = "an attribute or an item is set inside a kernel: Triton compiles no such thing, use tl.store"
            yield Violation("static.kernel_names", message, fact.line)
        elif isinstance(fact, AttributeStore) and fact.receiver.path == TYPE_OF:
            message = (
                f".{fact.name} of what type() gives is changed: name the class, as in Own.{fact.name} = ..., if it is"
                " one of your own"
            )
            yield Violation("static.monkeypatch", message, fact.line)
        elif isinstance(fact, AttributeStore) and fact.receiver.path == UNSURE and fact.name in _OF_OTHERS:
            message = (
                f".{fact.name} of self is changed in a method that a class hands on, so that self may be a tensor or a"
                " type of torch's or Triton's: call the method of an instance, or give the field another name"
            )
            yield Violation("static.monkeypatch", message, fact.line)
        elif isinstance(fact, AttributeStore) and _may_be_foreign(fact):
            message = (
                f".{fact.name} of an object of unknown type is changed, which may be a tensor or a type of torch's or"
                " Triton's: if it is a field of your own, give it another name"
            )
            yield Violation("static.monkeypatch", message, fact.line)
        elif isinstance(fact, AttributeStore) and fact.receiver.kind in _FOREIGN:
            what = fact.receiver.path or _FOREIGN[fact.receiver.kind]
            message = f".{fact.name} of {what} is changed: keep state in objects of your own, leave this one as it is"
            yield Violation("static.monkeypatch", message, fact.line)
        elif isinstance(fact, ItemStore) and fact.receiver.kind in (Kind.EXTERNAL, Kind.BUILTIN, Kind.KERNEL):
            message = f"an item of {fact.receiver.path or 'a kernel'} is changed: leave what is not yours as it is"
            yield Violation("static.monkeypatch", message, fact.line)


def _is_data(store: AttributeStore) -> bool:
    return store.receiver.kind is Kind.UNKNOWN and store.name in _DATA and not store.in_kernel


def _gets_a_type(facts: list[Fact]) -> bool:
    """True where the module could lay hands on the class of a tensor, to change it: by its name, or as a type."""
    return any(
        (
            isinstance(fact, ExternalUse)
            and not fact.asked
            and fact.path.partition("()")[0] in ("torch.Tensor", "torch.types")
        )
        or (isinstance(fact, BuiltinUse) and fact.name == "type")
        or (isinstance(fact, AttributeUse) and fact.name == "type" and not fact.in_kernel)
        for fact in facts
    )


def _may_be_foreign(store: AttributeStore) -> bool:
    """True also for what an annotation calls a number."""
    return store.receiver.kind in (Kind.UNKNOWN, Kind.HOST) and store.name in _OF_OTHERS


def foreign_bases(facts: list[Fact], policy: Policy) -> Iterator[Violation]:
    """Classes derived from what torch or Triton define."""
    for fact in facts:
        if isinstance(fact, Call) and _mixes_in(fact):
            message = "type= derives a class from another one: write a class statement"
            yield Violation("static.subclassing", message, fact.line)
        if not isinstance(fact, ClassDefinition):
            continue
        for base in fact.bases:
            if base not in BASE_CLASSES and not base.startswith("collections.abc."):
                message = f"class {fact.name} derives from {base}: use plain classes, and return plain tensors"
                yield Violation("static.subclassing", message, fact.line)


def _mixes_in(call: Call) -> bool:
    """True for `type=` where an enumeration may be made, which derives from what it is given."""
    given = dict(call.keywords)
    makes_enum = call.callee.kind is Kind.EXTERNAL and call.callee.path.startswith(("enum.", "functools.partial"))
    if "type" not in given:
        return "**" in given and call.callee.path.startswith("enum.")
    has_bases = isinstance(call.callee.node, ast.ClassDef) and bool(call.callee.node.bases)
    return makes_enum or has_bases or given["type"].path.startswith(("torch.", "triton."))
