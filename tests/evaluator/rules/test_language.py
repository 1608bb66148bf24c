"""Which names below triton.language are Triton's own, as the installed Triton says."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from d2k_agent.evaluator.rules import allow_list, check_rules, language
from d2k_agent.evaluator.rules.policy import policy_of

FIND_MODULES = """
import sys, pkgutil, types
for name in sys.argv[1:]:
    try:
        found = pkgutil.resolve_name(name)
    except (ImportError, AttributeError, RuntimeError):  # of another version, or of a GPU
        continue
    if isinstance(found, types.ModuleType):
        print(name)
"""


@pytest.mark.parametrize(
    "name",
    "load dot cdiv zeros float32 float32.primitive_bitwidth constexpr tensor.to math math.exp2 core.range random.philox"
    " extra.libdevice.tanh extra.cuda.globaltimer dtype.SIGNEDNESS.SIGNED TRITON_MAX_TENSOR_NUMEL target_info.is_cuda"
    " PropagateNan.ALL a_name_of_another_version extra.cuda.a_name_of_another_version".split(),
)
def test_what_triton_defines_may_be_used_and_what_is_not_there_says_python(name: str) -> None:
    assert policy_of({}).uses(f"triton.language.{name}")


@pytest.mark.parametrize(
    "name",
    "core.wraps core.partial core.dataclass core.contextmanager core.math core.math.pi core.typing extra.spec"
    " extra.spec.loader.set_data extra.module_finder extra.module_from_spec extra.modules random.jit zeros.fn load.x"
    " core.knobs semantic core.JITCallable target_info.driver math.wraps".split(),
)
def test_what_triton_imported_may_not_be_used_by_way_of_it(name: str) -> None:
    assert not policy_of({}).uses(f"triton.language.{name}")


@pytest.mark.parametrize("part", ["language", "nvidia"])
def test_gluon_is_asked_as_well(part: str) -> None:
    prefix = f"triton.experimental.gluon.{part}"
    tried = ("nvidia.hopper.mbarrier.init", "_core.wraps") if part == "language" else ("hopper.TensorDescriptor",)
    assert [policy_of({}).uses(f"{prefix}.{name}") for name in tried] == [True, False][: len(tried)]
    assert not policy_of({}).uses("triton.experimental.gluon.nvidia.hopper.dataclass")


def test_what_is_allowed_by_its_name_is_no_module_of_others() -> None:
    names = sorted(allow_list.TORCH) + sorted(allow_list.TRITON)
    asked = [sys.executable, "-c", FIND_MODULES, *names]
    assert subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split() == []


def test_this_process_does_not_import_triton_for_it() -> None:
    language.names.cache_clear()
    before = set(sys.modules)
    assert language.is_module("triton.language.extra.cuda") and not language.is_module("triton.language.load")
    assert not {name for name in set(sys.modules) - before if name.partition(".")[0] == "triton"}


@pytest.fixture
def forgotten() -> Iterator[None]:
    language.names.cache_clear()
    yield
    language.names.cache_clear()


def test_a_triton_that_cannot_be_asked_is_no_fault_of_a_candidate(
    forgotten: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(OSError, match="cannot say what its language has"):
        check_rules("", {})
