"""What the static rules follow, what they leave alone, and how a task changes them."""

from __future__ import annotations

import ast
import time

import pytest

from d2k_agent.evaluator.rules import check_rules, missing_launch
from d2k_agent.evaluator.rules.analysis import analyse, unread

KERNEL = """
import torch
import triton
import triton.language as tl

@triton.jit
def copy(x, out, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + o, tl.load(x + o, mask=o < n), mask=o < n)
"""


def checks(body: str, rules: dict[str, dict[str, list[str]]] | None = None) -> set[str]:
    return {violation.check for violation in check_rules(KERNEL + body, rules or {})}


def inside_run(*lines: str) -> str:
    return "\ndef run(G, scale, steps=5):\n    " + "\n    ".join(lines) + "\n    return G\n"


@pytest.mark.parametrize(
    "lines",
    [
        ("M, N = G.shape[-2:]", "n = M * N + -M // 2 ** 2 - M % 3",),
        ("grid = (triton.cdiv(G.shape[0], 64), min(G.shape[1], 8) * 2)",),
        ("n = G.numel() // 4 * G.element_size() << 1", "assert n > 0 and n != G.stride(0) * 2",),
        ("x = scale * 1.44 + scale",),
        ("sizes = [s * 2 for s in G.shape]", "total = sum(sizes) + max(sizes) - len(sizes)",),
        ("if G is None or G.dtype == torch.float16 or G.device != torch.device('cpu'):", "    pass"),
        ("for i, (a, b) in enumerate(zip(G.shape, G.stride())):", "    scale += a * b * i",),
        ("out = torch.empty_like(G)", "out = out.shape", "n = out[0] * out[1]"),
        ("x = G if steps else 3", "y = x * 2"),
        ("d = {}", "d['n'] = G.shape[0]", "d['n'] *= 2", "n = d.get('n', 1) * 3"),
        ("import os, sys, numpy as np", "from os import path"),
        ("x = G.view(torch.int16)", "y = x.to(G.device)", "z = y.to('cuda', non_blocking=True)"),
        ("out = torch.zeros_like(G)", "out[..., :4] = 0", "out[0].copy_(G[0])", "out.fill_(1.0)"),
        ("a, *rest = torch.empty((4, 2)).unbind(0)", "b = rest[0].shape[0] + 1"),
        ("import math", "n = math.prod(G.shape) + math.ceil(math.log2(G.shape[0] + 1))"),
    ],
)  # fmt: skip
def test_honest_host_code_is_left_alone(lines: tuple[str, ...]) -> None:
    assert checks(inside_run(*lines)) == set()


@pytest.mark.parametrize(
    ("lines", "check"),
    [
        (("x = G + 1",), "static.tensor_math"),
        (("x = -G.view(-1)",), "static.tensor_math"),
        (("x = torch.empty(3)", "x += 1"), "static.tensor_math"),
        (("x = 2 if steps else 3", "y = torch.ones(2) * x"), "static.tensor_math"),
        (("x = [v * 2 for v in G.split(2)]",), "static.tensor_math"),
        (("x, y = G.chunk(2)", "z = x > y"), "static.tensor_math"),
        (("x = {'a': G, 'b': torch.empty_like(G)}", "y = x['a'] - x['b']"), "static.tensor_math"),
        (("x = abs(G)",), "static.tensor_math"),
        (("n = int(G[0, 0])",), "static.tensor_math"),
        (("x = scale @ steps",), "static.tensor_math"),
        (("f = lambda t: t * 2", "x = f(G)"), "static.tensor_math"),
        (("x = G.softmax(-1)",), "static.tensor_methods"),
        (("x = scale.softmax(-1)",), "static.attributes"),
        (("n = G.max().item()",), "static.tensor_methods"),
        (("x = G.to(torch.float32)",), "static.casts"),
        (("x = G.to(dtype=G.dtype)",), "static.casts"),
        (("x = torch.tensor([G, G])",), "static.casts"),
        (("x = torch.cat([G, G])",), "static.torch_names"),
        (("from torch.nn import functional as F", "x = F.relu(G)"), "static.torch_names"),
        (("import os", "x = os.environ"), "static.imports"),
        (("x = copy(G, G, 1, 2)",), "static.kernel_use"),
        (("copy.cache_hook = print",), "static.monkeypatch"),
        (("torch.backends.cudnn.benchmark = True",), "static.monkeypatch"),
        (("f = getattr", "x = list(map(getattr, [G], ['sum']))"), "static.reflection"),
        (("f = [getattr]",), "static.reflection"),
        (("f = dict(take=delattr)",), "static.reflection"),
        (("f = lambda x=setattr: x",), "static.reflection"),
        (("match G:", "    case object(mT=x):", "        y = x * 2"), "static.tensor_math"),
        (("match copy:", "    case object(fn=f):", "        f(G)"), "static.kernel_use"),
        (("def f(x, library=torch):", "    return library"), "static.reflection"),
        (("raise ValueError('no', G)",), "static.tensor_math"),
        (("x = '{}'.format(G)",), "static.tensor_math"),
        (("x = list(map(repr, G.split(2)))",), "static.tensor_math"),
        (("print([G])",), "static.tensor_math"),
        (("from torch import *",), "static.imports"),
        (("from .neighbour import run as other",), "static.imports"),
    ],
)
def test_what_torch_would_compute_is_found(lines: tuple[str, ...], check: str) -> None:
    assert check in checks(inside_run(*lines)) if "import *" not in lines[0] else check in checks("\n" + lines[0])


def test_what_only_a_script_would_run_is_not_judged_but_its_else_is() -> None:
    assert checks("\nif __name__ == '__main__':\n    print(torch.randn(3) @ torch.randn(3))\n") == set()
    assert "static.torch_names" in checks("\nif __name__ == '__main__':\n    pass\nelse:\n    x = torch.randn(3)\n")


def test_a_violation_names_its_line_and_what_to_do_instead() -> None:
    (violation,) = check_rules("import torch\n\ndef run(G):\n    return torch.bmm(G, G)\n", {})
    assert (violation.check, violation.line) == ("static.torch_names", 4)
    assert "torch.bmm" in violation.message and "@triton.jit" in violation.message


@pytest.mark.parametrize(
    ("line", "check", "words"),
    [
        ("x = scale.shpe", "static.attributes", ("no attribute of that name", "did you mean .shape?")),
        ("x = scale.qqqqqq", "static.attributes", ("no attribute of that name", "write it without")),
        ("x = scale.bmm", "static.attributes", ("if it is a tensor", "give it another name")),
        ("scale.enter_context(G)", "static.attributes", ("cannot follow", "a plain with statement")),
        ("scale.send(G)", "static.attributes", ("cannot follow", "an ordinary function")),
        ("scale.register(G)", "static.attributes", ("cannot follow", "isinstance()")),
        ("scale._tiles", "static.attributes", ("a name without the underscore",)),
        ("scale.f_back", "static.attributes", ("frames of Python's", "rename it")),
        ("scale._replace(G=2)", "static.attributes", ("cannot follow", "a new tuple")),
        ("with torch.inference_mode():\n        pass", "static.torch_names", ("use torch.no_grad() or nothing",)),
        ("torch.view_as_complex(G)", "static.torch_names", ("a dimension of two",)),
    ],
)
def test_a_message_says_what_would_help(line: str, check: str, words: tuple[str, ...]) -> None:
    (violation,) = check_rules(KERNEL + inside_run(line), {})
    assert violation.check == check
    assert all(word in violation.message for word in words), violation.message
    assert "did you mean" not in violation.message or "shpe" in violation.message


OWN = """
CACHE = {}

class Space:
    norm = None

    def __init__(self, G):
        self.norm, self.product = torch.empty_like(G), None

    def matmul(self, G):
        copy[(1,)](G, self.norm, 1, BLOCK=16)
        return self.norm
"""


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("space = Space(G)", "out = space.matmul(G)"), set()),
        (("space = CACHE.get(G.shape)", "copy[(1,)](G, space.norm, 1, BLOCK=16)"), set()),
        (("space = CACHE.get(G.shape)", "norm = space.norm", "space.product(G)"), set()),
        (("space = CACHE.get(G.shape)", "x = space.matmul(G)"), {"static.attributes"}),
        (("space = CACHE.get(G.shape)", "x = space.norm(2)"), {"static.attributes"}),
        (("f = CACHE.get(G.shape).norm", "g = f if scale else steps", "x = g(2)"), {"static.attributes"}),
        (("f = getattr(CACHE.get(G.shape), 'norm')", "x = f(2)"), {"static.attributes"}),
    ],
)  # fmt: skip
def test_own_classes_do_not_hide_what_a_tensor_would_compute(lines: tuple[str, ...], expected: set[str]) -> None:
    assert checks(OWN + inside_run(*lines)) == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("space = CACHE.get(G.shape)", "space.product = space.calls = None", "del space.product"), set()),
        (("space = Space(G)", "space.shape = G.shape", "Space.calls = 1", "space.copy_ = None"), set()),
        (("def hook(nargs):", "    nargs['d'].block_shape = [16]", "    nargs['d'].layout = None"), set()),
        (("n = type(Space(G)).norm", "same = type(G) is type(CACHE.get(0))"), set()),
        (("space = CACHE.get(G.shape)", "space.norm = None"), {"static.monkeypatch"}),
        (("space = CACHE.get(G.shape)", "space.data = G"), {"static.monkeypatch"}),
        (("CACHE.get(0).fn = print",), {"static.monkeypatch"}),
        (("CACHE.get(0).atomic_add += 1",), {"static.monkeypatch"}),
        (("setattr(CACHE.get(0), 'softmax', None)",), {"static.monkeypatch"}),
        (("delattr(CACHE.get(0), 'softmax')",), {"static.monkeypatch"}),
        (("kind = type(CACHE.get(0))", "kind.anything = None"), {"static.monkeypatch"}),
        (("type(Space(G)).calls = 1",), {"static.monkeypatch"}),
        (("for type(CACHE.get(0)).calls in ():", "    pass"), {"static.monkeypatch"}),
    ],
)  # fmt: skip
def test_what_may_be_torchs_or_tritons_is_not_changed(lines: tuple[str, ...], expected: set[str]) -> None:
    assert checks(OWN + inside_run(*lines)) == expected


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
    ("line", "refused"),
    [
        ("x = cfg.tiles + cfg.rows", False),
        ("x = part(g) + whole(g)", False),
        ("x = [i for i in range(2)]", False),
        ("cfg.keep(g)", True),
        ("host(g)", True),
        ("x = host", True),
        ("g.rows = 1", True),
        ("g[0] = 1", True),
        ("g[0] += 1", True),
        ("for cfg.rows in range(2):\n        pass", True),
        ("cfg.update(g)", True),
        ("cfg.handle", True),
    ],
)
def test_a_kernel_hands_nothing_to_the_host(line: str, refused: bool) -> None:
    body = """
class Config:
    rows = 1

    @property
    def tiles(self):
        return self.rows

    def keep(self, value):
        self.rows = value

def host(x):
    return x

@triton.jit
def part(x):
    return x

def whole(x):
    return x

whole = triton.jit(whole)

@triton.jit
def k(g, cfg: tl.constexpr):
    """
    assert checks(f"{body}{line}\n") == ({"static.kernel_names"} if refused else set())


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("n = (scale > 2).sum()",), {"static.attributes"}),
        (("n = (1 < scale < 2).any()",), {"static.attributes"}),
        (("n = divmod(scale, 2)[0].sum()",), {"static.attributes"}),
        (("n = round(scale).sum()",), {"static.attributes"}),
        (("n = triton.Config({'a': scale}).kwargs['a'].sum()",), {"static.attributes"}),
        (("n = (scale is None) + (len(G.shape) > 2) + (scale in (1, 2))", "m = n + (scale > 2)"), set()),
        (("n = round(len(G.shape) / 2).bit_length() + divmod(G.numel(), 2)[1]",), set()),
        (("c = triton.Config({'B': 1}, num_warps=4)", "n = c.kwargs['B'] * c.num_warps"), set()),
    ],
)  # fmt: skip
def test_what_may_be_a_tensor_is_not_taken_for_a_number(lines: tuple[str, ...], expected: set[str]) -> None:
    assert checks(inside_run(*lines)) == expected


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("A(Space)", set()),
        ("A(collections.namedtuple('P', 'a b'))", set()),
        ("A(typing.NamedTuple('P', [('a', int)]))", set()),
        ("A(typing.Protocol[T], typing.Generic[T])", set()),
        ("A(typing.TypedDict, total=False)", set()),
        ("A(list[int], metaclass=abc.ABCMeta)", {"static.subclassing"}),
        ("A(list[int])", set()),
        ("A(CACHE.get(0))", {"static.subclassing"}),
        ("A(type(CACHE.get(0)))", {"static.subclassing"}),
        ("A(CACHE[0])", {"static.subclassing"}),
        ("A(metaclass=CACHE.get(0))", {"static.subclassing"}),
        ("A(type(torch.empty(1)))", {"static.subclassing"}),
    ],
)
def test_a_class_derives_from_what_can_be_followed(head: str, expected: set[str]) -> None:
    body = (
        f"\nimport abc\nimport collections\nimport typing\n\nT = typing.TypeVar('T')\n\nclass {head}:\n    a: int = 1\n"
    )
    assert checks(OWN + body) - {"static.module_names"} == expected


def test_what_the_allocator_holds_is_not_asked_for() -> None:
    for name in ("memory_allocated", "max_memory_allocated", "memory_reserved"):
        assert checks(inside_run(f"n = torch.cuda.{name}()")) == {"static.torch_names"}


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


def test_special_names_of_a_class_are_allowed_where_they_say_how_it_looks() -> None:
    body = "\nclass Plan:\n    __slots__ = ('rows',)\n    __hash__ = None\n"
    assert checks(body) == set()
    assert checks(f"{body}    __annotations__ = {{}}\n") == {"static.special_methods"}
    assert checks(f"{body}    __match_args__ = ('fn',)\n") == {"static.special_methods"}
    assert checks(f"{body}    global __name__\n    __name__ = 'x'\n") >= {"static.reflection"}


def test_a_task_extends_and_restricts_the_list() -> None:
    arange = inside_run("x = torch.arange(4, device=G.device)")
    assert checks(arange) == {"static.torch_names"}
    assert checks(arange, {"torch": {"allow": ["torch.arange"]}}) == set()
    assert checks(inside_run("x = G.clone()"), {"tensor": {"deny": ["clone"]}}) == {"static.tensor_methods"}
    assert checks("\nimport numpy as np\nx = np.prod((2, 3))", {"modules": {"allow": ["numpy"]}}) == set()
    assert checks(inside_run("n = scale.rank + scale.world"), {"attributes": {"allow": ["rank", "world"]}}) == set()
    asm = "\n@triton.jit\ndef k(x):\n    tl.inline_asm_elementwise('', '', [x], dtype=tl.int32, is_pure=True, pack=1)\n"
    assert checks(asm) == set()
    denied = {"triton": {"deny": ["triton.language.inline_asm_elementwise"]}}
    assert checks(asm, denied) == {"static.kernel_names"}


@pytest.mark.parametrize("rules", [{"numpy": {}}, {"torch": {"forbid": []}}, {"torch": {"allow": "torch.arange"}}])
def test_rules_that_make_no_sense_are_refused(rules: dict[str, dict[str, list[str]]]) -> None:
    with pytest.raises(ValueError, match=r"rules\.toml"):
        check_rules("", rules)


@pytest.mark.parametrize("source", ["def run(:", "x = 1\0", "x = " + "-" * 100_000 + "1", "x = " + "(" * 500])
def test_text_that_does_not_parse_is_a_syntax_error_with_a_line(source: str) -> None:
    with pytest.raises(SyntaxError) as caught:
        check_rules(source, {})
    assert caught.value.lineno is not None


@pytest.mark.parametrize("source", ["x = " + "1 + " * 900 + "1", "x = " + "-" * 900 + "1"])
def test_a_source_that_the_analysis_fails_on_has_one_violation(source: str) -> None:
    for found in (check_rules(source, {}), missing_launch(source)):
        (violation,) = found
        assert (violation.check, violation.line) == ("static.unreadable", 1)
        assert "RecursionError" in violation.message and "plainly" in violation.message


def test_code_that_no_walker_saw_is_found_with_its_line() -> None:
    program = analyse.__wrapped__(
        "def f(x: 'text', *a: int) -> None:\n    match x:\n        case [1, {'a': _}]:\n            x[0] += 1\n"
    )
    assert list(unread(program)) == []
    program.tree.body.append(ast.parse("\n\n\n\n\ny = [g for g in ()]").body[0])
    found = list(unread(program))
    assert {(violation.check, violation.line) for violation in found} == {("static.unread", 6)}
    assert len(found) == len({"Assign", "y", "ListComp", "elt", "target", "Tuple"})


def test_what_only_a_script_would_run_is_judged_where_the_source_touches_its_name() -> None:
    guarded = "\nif __name__ == '__main__':\n    torch.randn(3)\n"
    for touched in ("(__name__ := 'x')", "for __name__ in 'x': pass", "import math as __name__", "del __name__"):
        assert {"static.torch_names", "static.reflection"} <= checks(f"\n{touched}{guarded}"), touched


def test_a_hostile_source_does_not_hold_the_analysis_up() -> None:
    loops = "".join("    " * depth + f"for i{depth} in range(9):\n" for depth in range(18)) + "    " * 18 + "pass\n"
    doubling = "x = (1, 2)\n" + "x = (x, x)\n" * 80
    began = time.process_time()
    assert check_rules(loops, {}) == check_rules(doubling, {}) == ()
    assert time.process_time() - began < 5


DECORATOR = "\ndef checked(function):\n    def wrapper(G):\n        return function(G)\n    return wrapper\n\n"


@pytest.mark.parametrize(
    ("body", "missing"),
    [
        ("\ndef run(G):\n    copy[(1,)](G, G, 4, BLOCK=4)\n    return G\n", False),
        ("\ndef run(G):\n    return G\n", True),
        ("\ndef unused(G):\n    copy[(1,)](G, G, 4, BLOCK=4)\n\ndef run(G):\n    return G\n", True),
        ("\nTABLE = {'c': copy}\n\ndef run(G):\n    TABLE['c'][(1,)](G, G, 4, BLOCK=4)\n    return G\n", False),
        ("\nclass L:\n    def go(self, G):\n        copy[(1,)](G, G, 4, 4)\n\ndef run(G):\n    L().go(G)\n", False),
        ("\ndef go(k, G):\n    k.run(G, G, 4, 4, grid=(1,), warmup=False)\n\ndef run(G):\n    go(copy, G)\n", False),
        (DECORATOR + "@checked\ndef run(G):\n    copy[(1,)](G, G, 4, BLOCK=4)\n    return G\n", False),
        (
            DECORATOR + "@checked\ndef go(G):\n    copy[(1,)](G, G, 4, BLOCK=4)\n\ndef run(G):\n    return go(G)\n",
            False,
        ),
        (DECORATOR + "@checked\ndef go(G):\n    copy[(1,)](G, G, 4, BLOCK=4)\n\ndef run(G):\n    return G\n", True),
    ],
)
def test_a_launch_is_looked_for_in_what_run_can_reach(body: str, missing: bool) -> None:
    assert bool(missing_launch(KERNEL + body)) is missing


def test_a_source_without_any_kernel_has_no_launch() -> None:
    (violation,) = missing_launch("def run(G):\n    return G\n")
    assert violation.check == "static.no_launch" and "@triton.jit" in violation.message
