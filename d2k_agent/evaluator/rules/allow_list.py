"""What a candidate may use: the defaults that a task's rules.toml extends or restricts.

What is not named here is not allowed, with four exceptions: names below triton.language that are Triton's own
(language.py), fields and methods of the candidate's own classes as far as machinery.py lets them pass, public
attributes of what is certainly a number, a text or a property of a device, and imports that nobody uses. Decided by
what glue is (allocation, views, strides, shape, dtype and device queries, same-dtype copies); everything else belongs
in a Triton kernel.
"""

from __future__ import annotations

import builtins
import collections

DTYPES = frozenset(
    "float16 half bfloat16 float32 float float64 double int8 int16 short int32 int int64 long uint8 uint16 uint32"
    " uint64"
    " bool float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2".split()
)
"""Names of torch's element types."""

_TYPING = frozenset(
    "Annotated Any AnyStr Callable ClassVar Collection Concatenate Container Counter DefaultDict Deque Dict Final"
    " FrozenSet Generator Generic Hashable Iterable Iterator List Literal Mapping MutableMapping MutableSequence"
    " NamedTuple Never NewType NoReturn NotRequired Optional OrderedDict ParamSpec Protocol Required Reversible Self"
    " Sequence Set Sized SupportsAbs SupportsFloat SupportsIndex SupportsInt TYPE_CHECKING Tuple Type TypeAlias"
    " TypeGuard TypeVar TypeVarTuple TypedDict Union Unpack assert_never cast final no_type_check overload override"
    " runtime_checkable".split()
)
"""Words of annotations. Those that look into a type are left out: a text in it would be evaluated as code."""

MODULES: dict[str, frozenset[str]] = {
    "__future__": frozenset(["annotations"]),
    "abc": frozenset(["ABC", "abstractmethod"]),
    "collections": frozenset("ChainMap Counter OrderedDict UserDict abc defaultdict deque namedtuple".split()),
    "collections.abc": frozenset(
        "Callable Collection Container Generator Hashable ItemsView Iterable Iterator KeysView Mapping MutableMapping"
        " MutableSequence MutableSet Reversible Sequence Set Sized ValuesView".split()
    ),
    "contextlib": frozenset(["contextmanager", "nullcontext", "suppress"]),
    "dataclasses": frozenset(
        "FrozenInstanceError InitVar KW_ONLY MISSING asdict astuple dataclass field fields is_dataclass replace".split()
    ),
    "enum": frozenset(["Enum", "Flag", "IntEnum", "IntFlag", "StrEnum", "auto", "unique"]),
    "functools": frozenset("cache cached_property cmp_to_key lru_cache partial reduce total_ordering".split()),
    "itertools": frozenset(
        "accumulate chain combinations combinations_with_replacement compress count cycle dropwhile filterfalse groupby"
        " islice pairwise permutations product repeat starmap takewhile tee zip_longest".split()
    ),
    "math": frozenset(
        "acos acosh asin asinh atan atan2 atanh cbrt ceil comb copysign cos cosh degrees dist e erf erfc exp exp2 expm1"
        " fabs factorial floor fma fmod frexp fsum gamma gcd hypot inf isclose isfinite isinf isnan isqrt lcm ldexp"
        " lgamma log log10 log1p log2 modf nan nextafter perm pi pow prod radians remainder sin sinh sqrt sumprod tan"
        " tanh tau trunc ulp".split()
    ),
    "numbers": frozenset(["Integral", "Number", "Real"]),
    "operator": frozenset(["add", "floordiv", "itemgetter", "mul", "sub"]),
    "time": frozenset(["sleep"]),
    "types": frozenset(["MappingProxyType", "SimpleNamespace"]),
    "typing": _TYPING,
    "typing_extensions": _TYPING,
}
"""Modules of the standard library, and which of their names. A clock is not needed: the evaluator keeps the time."""

COPIES_NAMES = "functools.wraps"
"""Allowed as `@functools.wraps(function)` alone: told what to update, and so is what it returns, it pours the globals
of another module into the candidate's."""

TORCH_MODULES = frozenset(["torch", "torch.cuda", "torch.version", "torch.nn", "torch.nn.functional", "torch.types"])
"""Modules of torch that may be imported; what may be used of them says TORCH."""

ALLOCATION = frozenset("empty empty_like empty_strided zeros zeros_like ones ones_like full full_like tensor".split())
VIEWS = frozenset(
    "as_strided atleast_1d atleast_2d broadcast_to diagonal flatten movedim narrow permute ravel reshape select split"
    " chunk squeeze swapaxes swapdims t tensor_split transpose unbind unflatten unsqueeze adjoint".split()
)
TORCH = (
    frozenset(f"torch.{name}" for name in ALLOCATION | VIEWS | DTYPES)
    | frozenset(
        f"torch.{name}"
        for name in "Tensor Size dtype device layout memory_format strided contiguous_format"
        " preserve_format channels_last"
        " finfo iinfo is_tensor is_floating_point numel no_grad enable_grad clone __version__"
        " broadcast_shapes get_default_dtype OutOfMemoryError Size.numel device.type device.index".split()
    )
    | frozenset(
        f"torch.cuda.{name}"
        for name in "is_available current_device device device_count device_of get_device_capability get_device_name"
        " get_device_properties mem_get_info synchronize OutOfMemoryError is_bf16_supported".split()
    )
    | frozenset(["torch.version.cuda", "torch.version.hip", "torch.types.Number", "torch.types.Device"])
)
"""Names of torch that are glue. What the allocator holds is not asked for: it says which call is looked at."""

TRITON = frozenset(
    "triton.jit triton.autotune triton.heuristics triton.Config triton.cdiv triton.next_power_of_2 triton.set_allocator"
    " triton.constexpr_function triton.JITFunction triton.CompilationError triton.OutOfResources triton.__version__"
    " triton.runtime.autotune triton.runtime.heuristics triton.runtime.Config triton.runtime.JITFunction"
    " triton.runtime.set_allocator triton.runtime.OutOfResources triton.runtime.errors.OutOfResources"
    " triton.compiler.CompilationError triton.compiler.errors.CompilationError"
    " triton.runtime.driver.active.get_current_target triton.runtime.driver.active.get_current_device"
    " triton.runtime.driver.active.utils.get_device_properties"
    " triton.tools.tensor_descriptor.TensorDescriptor triton.tools.tensor_descriptor.TensorDescriptor.from_tensor"
    " triton.experimental.gluon.jit triton.experimental.gluon.constexpr_function"
    " triton.experimental.gluon.aggregate triton.language.PropagateNan triton.language.PropagateNan.ALL"
    " triton.language.PropagateNan.NONE".split()
)
TRITON_PREFIXES = frozenset(
    ["triton.language", "triton.experimental.gluon.language", "triton.experimental.gluon.nvidia"]
)
"""Every public name below these that is Triton's own, as language.py says, except TRITON_DENIED."""
TRITON_DENIED = frozenset("extern_elementwise dispatch builtin ir knobs semantic libtriton runtime driver".split())
TRITON_MODULES = frozenset(
    "triton triton.language triton.runtime triton.tools triton.tools.tensor_descriptor triton.compiler"
    " triton.experimental triton.experimental.gluon triton.runtime.errors triton.compiler.errors".split()
)
KERNEL_DECORATORS = frozenset(["triton.jit", "triton.experimental.gluon.jit"])
CONSTEXPR_DECORATORS = frozenset(["triton.constexpr_function", "triton.experimental.gluon.constexpr_function"])
"""What they give is the host's: a kernel may call it with what is known when it is compiled."""
TUNERS = frozenset("triton.autotune triton.heuristics triton.runtime.autotune triton.runtime.heuristics".split())

TENSOR_QUERIES = frozenset(
    "shape size stride dtype device ndim dim numel nelement element_size itemsize nbytes is_cuda is_cpu is_meta"
    " is_contiguous is_floating_point is_complex is_signed layout requires_grad data_ptr storage_offset"
    " get_device".split()
)
TENSOR_VIEWS = VIEWS | frozenset(
    "T mT H mH expand expand_as view view_as reshape_as detach contiguous clone to cuda".split()
)
TENSOR_ALLOCATION = frozenset("new_empty new_empty_strided new_zeros new_ones new_full new_tensor".split())
TENSOR_FILLS = frozenset(["zero_", "fill_", "copy_"])
TENSOR = TENSOR_QUERIES | TENSOR_VIEWS | TENSOR_ALLOCATION | TENSOR_FILLS
"""Attributes of tensors that are glue. `.to` is looked at closer: a device yes, a dtype no."""

EXCEPTIONS = frozenset(
    name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, Exception)
)
BUILTINS = EXCEPTIONS | frozenset(
    "abs all any ascii bin bool bytes callable complex dict divmod enumerate filter float format frozenset getattr"
    " hasattr hash hex id int isinstance issubclass iter len list map max min next object oct ord chr pow print"
    " property"
    " range repr reversed round set setattr delattr slice sorted staticmethod classmethod str sum super tuple type zip"
    " Ellipsis NotImplemented True False None __name__ __doc__ __debug__".split()
)
"""Built-in names. getattr, setattr and delattr count as the attribute they name."""

OBJECT_ATTRIBUTES = frozenset(
    name
    for kind in (str, list, dict, set, tuple, int, float, slice, collections.deque, collections.Counter)
    for name in dir(kind)
    if not name.startswith("_")
) | frozenset(
    "kwargs num_warps num_stages num_ctas maxnreg pre_hook all_kwargs multi_processor_count major minor name"
    " total_memory warp_size shared_memory_per_block shared_memory_per_block_optin shared_memory_per_multiprocessor"
    " L2_cache_size"
    " regs_per_multiprocessor max_threads_per_multi_processor max_threads_per_block clock_rate memory_clock_rate"
    " memory_bus_width arch backend type index bits eps smallest_normal tiny args value base block_shape padding"
    " strides"
    " cache_info cache_clear move_to_end best_config configs arg_names metadata n_regs n_spills shared warmup".split()
)
"""Attributes of objects whose type the analysis cannot tell: containers, texts, configurations, device properties."""

MUTATORS = frozenset(
    "add append appendleft clear difference_update discard extend extendleft insert intersection_update move_to_end pop"
    " popitem popleft remove reverse rotate setdefault subtract symmetric_difference_update update".split()
)
"""Methods of containers that change them. No kernel compiles them: interpreted, they would hand values to the host."""

KERNEL_ATTRIBUTES = frozenset("best_config configs arg_names warmup run __name__".split())
"""Attributes of kernels. `fn`, the Python function below, is not one: calling it would compute outside a kernel."""

KERNEL_TENSOR_METHODS = frozenset(
    "abs advance argmax argmin associative_scan atomic_add atomic_and atomic_cas atomic_max atomic_min atomic_or"
    " atomic_xchg atomic_xor broadcast_to cast cdiv ceil cos cumprod cumsum div_rn erf exp exp2 expand_dims fdiv flip"
    " floor fma gather histogram item load log log2 logical_and logical_or max min numel permute ravel reduce reduce_or"
    " reshape rsqrt scatter sigmoid sin softmax sort split sqrt sqrt_rn store sum swizzle to topk trans umulhi view"
    " xor_sum squeeze unsqueeze slice is_fp8 is_fp16 is_bf16 is_fp32 is_fp64 is_floating is_int is_int_signed is_block"
    " is_ptr".split()
)
KERNEL_TENSOR_ATTRIBUTES = KERNEL_TENSOR_METHODS | frozenset(
    "T dtype element_ty primitive_bitwidth ptr scalar shape strides type value block_shape itemsize int_bitwidth"
    " fp_mantissa_width offsets base block_type layout rank nbytes ndim".split()
)
"""Attributes of values inside a kernel."""

KERNEL_BUILTINS = frozenset(
    "range min max abs len int float bool print isinstance tuple list zip sum round divmod pow True False None"
    " AssertionError ValueError slice".split()
)

SPECIAL_METHODS = frozenset(
    f"__{name}__"
    for name in "init post_init new call repr str hash eq ne lt le gt ge len iter next getitem setitem delitem contains"
    " enter exit bool int float index missing all author version doc slots future".split()
)
"""Names with double underscores that a candidate may define."""

LABELS = frozenset(["__name__", "__qualname__", "__doc__"])
"""What a message calls a class or a function by: texts, that anything which may be used may be asked for."""
SPECIAL_ATTRIBUTES = LABELS | frozenset(["__init__", "__post_init__", "__version__", "__len__"])
"""Attributes with double underscores that a candidate may read."""

_PLAIN_BASES = frozenset(
    "object Exception RuntimeError ValueError dict list tuple int str enum.Enum enum.IntEnum enum.StrEnum enum.Flag"
    " enum.IntFlag abc.ABC collections.OrderedDict collections.UserDict collections.namedtuple".split()
)
_TYPING_BASES = frozenset(
    f"{module}.{name}"
    for module in ("typing", "typing_extensions")
    for name in (
        "NamedTuple TypedDict Protocol Generic Hashable Sized Iterable Iterator Mapping MutableMapping Sequence".split()
    )
)
BASE_CLASSES = _PLAIN_BASES | _TYPING_BASES
"""Imported and built-in classes that a candidate's class may derive from, besides those of collections.abc."""
CLASS_DECORATORS = frozenset(
    ["dataclasses.dataclass", "functools.total_ordering", "triton.experimental.gluon.aggregate"]
)
"""Allowed above a class only: called, they would change a class of torch's or Triton's."""
