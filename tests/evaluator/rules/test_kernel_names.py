"""Names of the module that a kernel reads: what Triton compiles passes, what it would run as Python does not."""

from __future__ import annotations

import pytest

from tests.evaluator.rules.asking import checks

_SWITCH = """
try:
    from triton.language.extra.libdevice import rsqrt
except ModuleNotFoundError:
    from triton.language.extra.cuda.libdevice import rsqrt
"""
_BRANCHES = """
if triton.__version__ > "3":
    @triton.jit
    def f(a):
        return a
else:
    f = tl.exp
"""
_MODULES = """
if triton.__version__ > "3":
    import triton.language.extra.libdevice as ld
else:
    import triton.language.math as ld
"""
_ENUM = """
import enum

class Mode(enum.IntEnum):
    A = 1
    B = enum.auto()

    @classmethod
    def of(cls, text):
        return cls.A
"""
_LAYOUT = """
from triton.experimental.gluon import language as gl
L: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
"""
_AGGREGATE = """
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

@gluon.aggregate
class A:
    a: gl.constexpr

    def __init__(self, a):
        self.a = gl.constexpr(a)

    @gluon.jit
    def go(self, b):
        return b
"""


@pytest.mark.parametrize(
    ("module", "line"),
    [
        (_SWITCH, "x = rsqrt(tl.load(g))"),
        (_BRANCHES, "x = f(tl.load(g))"),
        (_MODULES, "x = ld.exp(tl.load(g))"),
        ("exp = tl.math.exp if hasattr(tl, 'math') else tl.exp", "x = exp(tl.load(g))"),
        ("BIG = tl.constexpr(3.0)\nC = tl.constexpr(int(4))", "x = tl.load(g) * BIG * C.value"),
        ("D = tl.float32\nE = tl.constexpr(tl.float16)", "x = tl.load(g).to(D).to(E)"),
        ("P = tl.pointer_type(tl.float32)", "x = g.to(P)"),
        ("S = (1, 2)\nT = tuple(2**i for i in S)", "x = T[1]\n    for i in tl.static_range(S[1]):\n        x += i"),
        (_ENUM, "x = Mode.A + Mode.B.value"),
        (_LAYOUT, "x = gl.arange(0, 16, layout=L)"),
        (_AGGREGATE, "x = A(3).go(g)"),
        ("class Cfg:\n    BLOCK = 16", "x = Cfg.BLOCK"),
        ("class Ops:\n    @staticmethod\n    @triton.jit\n    def same(a):\n        return a", "x = Ops.same(g)"),
        ("@triton.constexpr_function\ndef up(n):\n    return n * 2", "x = up(B)"),
        ("N = torch.cuda.get_device_properties(0).multi_processor_count", "x = N"),
        ("import math\nL = math.log2(math.e)", "x = L * math.pi"),
        ("", "x = LATE"),
    ],
)  # fmt: skip
def test_what_triton_compiles_passes(module: str, line: str) -> None:
    assert checks(_kernel(module, line)) == set()


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("keep = SEEN.append", "keep(g)"),
        ("", "global SEEN\n    SEEN = g"),
        ("def f(v):\n    SEEN.append(v)\nF = [f]", "F[0](g)"),
        ("def f(v):\n    SEEN.append(v)\nF = {'a': f}", "F['a'](g)"),
        ("import functools\ndef f(v):\n    SEEN.append(v)\nF = functools.partial(f)", "F(g)"),
        ("F = {}.setdefault", "F(1, g)"),
        ("S = [0]", "a = S\n    a += [g]"),
        ("S = [0] if copy else 3\nS = S + S", "a = S\n    a += [g]"),
        ("S = [0] if copy else 3\nf = S.append", "f(g)"),
        ("f = map", "f(g)"),
        ("q = tl.tuple([SEEN.append])", "q[0](g)"),
        ("q = tl.constexpr(SEEN.append)", "q(g)"),
        ("q = tl.constexpr(value=SEEN.append)", "q(g)"),
        ("class C:\n    f = 1\nsetattr(C, 'f', SEEN.append)", "C.f(g)"),
        ("class C:\n    f = 1\nbox = {'a': C}\nbox.get('a').f = SEEN.append", "C.f(g)"),
        (_ENUM + "    def __eq__(self, other):\n        return SEEN", "x = g == Mode.A"),
        (_AGGREGATE.replace("gl.constexpr(a)", "SEEN.append(a)"), "A(g)"),
        (_AGGREGATE.replace("self.a = gl.constexpr(a)", "SEEN[0] = a"), "A(g)"),
    ],
)
def test_what_python_would_run_does_not(module: str, line: str) -> None:
    assert checks(_kernel(module, line)) == {"static.kernel_names"}


@pytest.mark.parametrize(
    ("method", "line"),
    [
        ("__call__(self, v=None)", "BOX(g)"),
        ("__init__(self, v=None)", "Own(g)"),
        ("__getitem__(self, v)", "x = BOX[g]"),
        ("__contains__(self, v)", "x = g in BOX"),
        ("__eq__(self, v)", "x = BOX == g"),
        ("__iter__(self)", "x = [a for a in BOX]"),
        ("__hash__(self)", "x = {BOX: 1}"),
        ("__bool__(self)", "x = not BOX"),
        ("__enter__(self)", "with BOX:\n        pass"),
    ],
)
def test_no_object_of_the_hosts_is_read(method: str, line: str) -> None:
    module = f"class Own:\n    def {method}:\n        SEEN.append(1)\n\nBOX = Own()"
    assert checks(_kernel(module, line)) == {"static.kernel_names"}


def test_what_a_function_around_a_kernel_was_given_is_not_known() -> None:
    factory = "def make(q: int):\n    @triton.jit\n    def k(g):\n        q(tl.load(g))\n    return k\n"
    assert checks(factory) == {"static.kernel_names"}


def _kernel(module: str, line: str) -> str:
    kernel = f"@triton.jit\ndef k(g, B: tl.constexpr):\n    {line}\n"
    return f"\nSEEN = []\n{module}\n\n{kernel}\nLATE = tl.constexpr(4)\n"
