"""Names that nobody binds, names that are Python's, and texts that stand for types or are filled."""

from __future__ import annotations

import pytest

from d2k_agent.evaluator.rules import check_rules
from tests.evaluator.rules.asking import KERNEL, checks, inside_run


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("f'{type(G).__name__} {type(scale).__qualname__} {G.__class__.__name__.lower()} {run.__doc__}'", set()),
        (
            "n = torch.Tensor.__name__.lower() + torch.float16.__class__.__name__ + tl.load.__name__ + scale.__name__",
            set(),
        ),
        ("n = torch.matmul.__name__", {"static.torch_names"}),
        ("n = torch.is_tensor.anything", {"static.torch_names"}),
        ("n = torch.no_grad.clone", {"static.torch_names"}),
        ("n = torch.Size([1]).numel() + torch.finfo(G.dtype).bits + torch.Size.numel(G.shape)", set()),
        ("n = G.__class__", {"static.reflection"}),
        ("n = G.__class__.sum", {"static.reflection"}),
        ("G.__class__.__name__ = 'x'", {"static.reflection"}),
        ("type(G).__name__ = 'x'", {"static.monkeypatch"}),
        ("n = G.mT.sum().__class__.__name__", {"static.tensor_methods"}),
    ],
)
def test_a_message_may_name_the_class_of_anything(line: str, expected: set[str]) -> None:
    found = checks(inside_run(line))
    assert found >= expected and bool(found) == bool(expected)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("x = 'a {} {0!r:>{width}} {{x.y}} {n:.3f}'.format(1, width=2, n=3.0)", set()),
        ("x = list(map('{}'.format, G.shape))", set()),
        ("x = f'{G.shape[0]:.2f} {format(2)} {scale!r}'", set()),
        ("x = '{0.gi_frame}'.format(scale)", {"static.reflection"}),
        ("x = '{0[a]}'.format(scale)", {"static.reflection"}),
        ("x = '{:{0.gi_frame}}'.format(scale)", {"static.reflection"}),
        ("x = scale.format(scale)", {"static.reflection"}),
        ("x = ('{0.gi_' + 'frame}').format(scale)", {"static.reflection"}),
        ("x = str.format('{0.gi_frame}', scale)", {"static.reflection"}),
        ("x = '{a.gi_frame}'.format_map({'a': scale})", {"static.reflection"}),
        ("x = getattr('{0.gi_frame}', 'format')(scale)", {"static.reflection"}),
        ("f = '{0.gi_frame}'.format", {"static.reflection"}),
        ("match scale:\n        case str(format=f):\n            f(scale)", {"static.reflection"}),
    ],
)
def test_a_text_that_is_filled_reads_no_attributes(line: str, expected: set[str]) -> None:
    assert checks(inside_run(line)) == expected


@pytest.mark.parametrize(
    ("module", "line", "expected"),
    [
        ("", "x = BAD.format(G.ndim)", set()),
        ("", "x = BAD.format(G)", {"static.tensor_math"}),
        ("BAD = '{0.gi_frame}'", "x = BAD.format(scale)", {"static.reflection"}),
        ("for BAD in ('{0.gi_frame}',):\n    pass", "x = BAD.format(scale)", {"static.reflection"}),
        ("def f(BAD):\n    return BAD.format(1)", "x = f('{0.gi_frame}')", {"static.reflection"}),
        ("match '{0.a}':\n    case BAD:\n        pass", "x = BAD.format(scale)", {"static.reflection"}),
        ("def f():\n    global BAD\n    BAD = '{0.a}'", "x = BAD.format(scale)", {"static.reflection"}),
    ],
)
def test_a_constant_of_the_module_may_be_filled(module: str, line: str, expected: set[str]) -> None:
    assert checks(f"\nBAD = 'not of {{}} dimensions'\n{module}\n" + inside_run(line)) == expected


def test_a_change_by_type_is_told_how_to_write_it() -> None:
    body = "\nclass A:\n    n = 0\n\n    def go(self):\n        type(self).n += 1\n" + inside_run("A().go()")
    (found,) = check_rules(KERNEL + body, {})
    assert found.check == "static.monkeypatch" and "Own.n = ..." in found.message


def test_a_name_bound_by_the_candidate_is_the_candidates() -> None:
    assert checks("\ndef exec(x):\n    return x\n\nopen = exec\n" + inside_run("n = exec(3) + open(4)")) == set()
    assert checks("\ndef jit(f):\n    return f\n\n@jit\ndef host(x):\n    return x @ x\n") == {"static.tensor_math"}


@pytest.mark.parametrize(
    "body",
    [
        "def run(G):\n    return compile(G)\n\ndef compile(G):\n    return G\n",
        "def helper(input, vars=1):\n    for dir in (input, vars):\n        dir = dir + 1\n    return dir\n",
        "def helper(n):\n    return [open + 1 for open in range(n) if open]\n",
        "def run(G: torch.Tensor):\n    compile(G)\n\nN = {'a': 1}\n\ndef compile(G: torch.Tensor):\n    return G\n",
        "TABLE = {'a': 1}\nvars, dir = 1, 2\n\ndef helper():\n    return vars + dir\n",
    ],
)
def test_a_name_of_pythons_that_the_candidate_surely_bound_is_its_own(body: str) -> None:
    assert checks("\n" + body) == set()


@pytest.mark.parametrize(
    "body",
    [
        "try:\n    pass\nexcept ValueError as exec:\n    pass\n\ndef run(G):\n    exec('')\n",
        "class Own:\n    if 0:\n        exec = 1\n    exec('')\n",
        "def helper():\n    global exec\n    exec = 1\n\ndef run(G):\n    exec('')\n",
        "@triton.jit\ndef kernel(x):\n    exec('')\n\nfor exec in ():\n    pass\n",
        "def f():\n    return exec\n\nif 1:\n    torch = f\n\ndef g(x: torch.a):\n    pass\n\nexec = 1\n",
        "import enum\n\ndef f():\n    return exec\n\nexec = 1\n",
        "[a, b] = (1, 2)\n\ndef f():\n    return exec\n\n[a, b] = (1, 2)\nexec = 1\n",
        "for getattr in ():\n    pass\n\ndef run(G):\n    getattr(G, 'su' + 'm')\n",
    ],
)
def test_a_name_of_pythons_that_may_still_be_pythons_is_judged(body: str) -> None:
    assert checks("\n" + body) & {"static.reflection", "static.kernel_names"}


BOUND = """try:
    found = 1
except ValueError as problem:
    found, why = None, problem

def f():
    return found, why
---
if torch.cuda.is_available():
    N = 1
else:
    M = 2

def f():
    return N, M
---
def g():
    global late
    late = 1

def f():
    return late
---
x = [seen := n for n in range(3)]
print(seen)

def f():
    return seen, [(a, b) for a in x for b in (a,) if b]
---
class Own:
    a = 1
    b = a + 1
    if b:
        c = b
    d = [a for _ in (c,)]
---
def f(v):
    match v:
        case {'a': [one, *two], **three} | (one, two, three) as four:
            return one, two, three, four
---
def f(v):
    n = 0
    def g():
        nonlocal n
        n += v
        return later
    later = 1
    return g
---
for i, (a, *b) in ():
    pass
print(i, a, b)
f = lambda p, *q, r=1, **s: (p, q, r, s, f)
---
def f(v):
    try:
        with torch.no_grad() as m, v as (a, b):
            pass
    except* ValueError as e:
        print(e)
    return m, a, b
---
import os.path as p, triton as t
x: int = 1
x += 1
print(x, t.__version__)
---
def f(x: 'Batch | None', y: 'typing.Any', *z: 'a batch of them') -> 'dict[str, Batch]':
    n: 'Batch' = x
    return n
---
from __future__ import annotations

def f(x: Batch, y: Optional[Batch]) -> Batch | None:
    return x
---
@triton.jit
def k(x, N: tl.constexpr):
    y = [i + j for i in range(N) for j in (i,)]
    for n in tl.static_range(2):
        z = n
    tl.store(x, y[0] + z)
---
print(__name__, __doc__, __debug__, NotImplementedError, EncodingWarning)
"""


@pytest.mark.parametrize("body", BOUND.split("---\n"))
def test_names_that_somebody_binds_in_any_way_are_defined(body: str) -> None:
    assert "static.undefined" not in checks("\n" + body)
    assert "static.unread" not in checks("\n" + body)


@pytest.mark.parametrize(
    "body",
    [
        "def run(G):\n    return Gs\n",
        "def run(G):\n    return copi[(1,)](G, G, 1)\n",
        "def other(mul):\n    return [mul for add in 'a']\n\ndef run(G):\n    mul(G, G)\n",
        "class Own:\n    mul = None\n\n    def other(self):\n        return mul\n",
        "x = [add for add in 'a']\nprint(add)\n",
        "f = lambda mul: 1\nprint(mul)\n",
        "@triton.jit\ndef k(x):\n    tl.store(x, [i for i in range(2)][0] + i)\n",
        "def f(x: mul(1, 2)):\n    return x\n",
    ],
)
def test_a_name_that_nobody_binds_is_a_violation_that_asks_for_its_spelling(body: str) -> None:
    (message,) = {v.message for v in check_rules(KERNEL + "\n" + body, {}) if v.check == "static.undefined"}
    assert "nobody defines the name" in message and "misspelled" in message


def test_names_that_a_star_import_may_bring_are_not_asked_for() -> None:
    assert checks("\nfrom math import *\nprint(prod((1, 2)))\n") == {"static.imports"}


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        ("'torch.Tensor'", set()),
        ("'list[tuple[torch.Tensor, ...]] | None'", set()),
        ("tuple['torch.Tensor', 'int']", set()),
        ("'typing.Literal[\"to nearest\", -1]'", set()),
        ("'*fp32'", set()),
        ("'G.shape of a batch'", set()),
        ("'torch.matmul'", {"static.torch_names"}),
        ("'exec(\"\")'", {"static.reflection"}),
        ("'*exec(\"\")'", {"static.reflection"}),
        ("list['[x for x in ()]']", {"static.reflection"}),
        ("'list[\"exec()\"]'", {"static.reflection"}),
        ("'lambda: 1'", {"static.reflection"}),
        ("'2 * 3'", {"static.reflection"}),
    ],
)
def test_the_text_of_an_annotation_names_a_type_and_computes_nothing(annotation: str, expected: set[str]) -> None:
    places = (f"def f(x: {annotation}): pass", f"def f() -> {annotation}: pass", f"x: {annotation} = 1")
    assert [checks(f"\n{place}\n") for place in places] == [expected] * 3
